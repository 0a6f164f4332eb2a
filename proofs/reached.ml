(* SPDX-License-Identifier: Apache-2.0 *)
(* What the analyser reached: a line "reached FUNCTION STATEMENT FILE:LINE YES|NO" for each statement of each function, the
   statements numbered from 0 within their function. tools/assurance/prove.sh puts the lines of all drivers together. *)
let print_statement name index statement =
  let position = fst (Cil_datatype.Stmt.loc statement) in
  Printf.printf "reached %s %d %s:%d %s\n" name index
    (Filepath.Normalized.to_pretty_string position.Filepath.pos_path)
    position.Filepath.pos_lnum
    (if Db.Value.is_reachable_stmt statement then "yes" else "no")

let print_function (definition : Cil_types.fundec) =
  List.iteri (print_statement definition.svar.vname) definition.sallstmts

let () =
  Db.Main.extend (fun () -> if Db.Value.is_computed () then Globals.Functions.iter_on_fundecs print_function)
