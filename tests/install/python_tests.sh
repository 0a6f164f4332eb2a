# SPDX-License-Identifier: Apache-2.0
#
# Sourced by scripts that run the Python package's tests on other systems.

# Whole files of tests, and what of their cases pytest leaves out, by what a list names in lines of `TEST...: why`.
select_tests() { # select_tests LIST: into the arrays files and cases
    local test left=()
    read -ra left <<<"$(sed -n 's/^\([a-z].*\): .*/\1/p' "$1" | tr '\n' ' ')"
    files=(bindings/python/tests/test_*.py)
    cases=()
    for test in "${left[@]}"; do
        case $test in
        *::*) cases+=("--deselect=tests/test_${test/::/.py::}") ;;
        *) files=("${files[@]/#bindings\/python\/tests\/test_$test.py/}") ;;
        esac
    done
    # What was taken out has left empty words.
    read -ra files <<<"${files[*]}"
}

run_tests() { # run_tests PYTHON LIST FOLDER: by the command PYTHON, but what the list names, with their files in FOLDER
    local files cases
    select_tests "$2"
    "$1" -m pytest -p no:cacheprovider --basetemp "$3" -c bindings/python/pyproject.toml --rootdir bindings/python -q --tb=short \
        "${cases[@]}" "${files[@]}"
}
