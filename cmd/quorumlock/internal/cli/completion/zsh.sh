#compdef quorumlock
# Completion of quorumlock for zsh. The words of the line are data here: nothing expands or
# evaluates them.
_quorumlock() {
  local -i dashes=${words[(i)--]}
  local -a request offers
  if ((dashes < CURRENT)); then # after -- come a command and files
    ((CURRENT == dashes + 1)) && _command_names -e
    _files
    return
  fi
  request=("${(@)words[1,CURRENT-1]}")
  [[ $request[1] == '~/'* ]] && request[1]=$HOME/${request[1]#'~/'}
  [[ $words[CURRENT] == -* ]] && request+=("$words[CURRENT]")
  offers=("${(@f)$(command "${(@)request}" --generate-shell-completion 2>/dev/null </dev/null)}")
  if [[ -n $offers[1] ]]; then
    _describe quorumlock offers
  else
    _files
  fi
}

if [[ $funcstack[1] == _quorumlock ]]; then # loaded from a directory of functions
  _quorumlock "$@"
else
  compdef _quorumlock quorumlock
fi
