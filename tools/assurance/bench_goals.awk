# SPDX-License-Identifier: Apache-2.0
#
# The rows of a run, where the state of one that has a goal says whether it was reached: "cached; should be 1.20" becomes
# "cached; goal 1.20: missed" by the row's ratio, which `at most` turns round for a row without one.
BEGIN { FS = OFS = "\t" }
$1 == "ROW" && match($8, /; should be (at most )?[0-9.]+$/) {
    goal = substr($8, RSTART + 12)
    most = sub(/^at most /, "", goal)
    reached = most ? $4 + 0 <= goal + 0 : $7 + 0 >= goal + 0
    $8 = substr($8, 1, RSTART - 1) "; goal " (most ? "at most " : "") goal ": " (reached ? "reached" : "missed")
}
{ print }
