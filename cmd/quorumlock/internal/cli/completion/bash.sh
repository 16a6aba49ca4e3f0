# Completion of quorumlock for bash. The words of the line are data here: nothing expands or
# evaluates them.
__quorumlock_complete() {
  local cur=${COMP_WORDS[COMP_CWORD]} line token longest=0 i
  local -a words tokens lines
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    [[ ${COMP_WORDS[i]} == -- ]] || continue
    # After -- come a command and files. Without a match bash completes file names.
    if ((i == COMP_CWORD - 1)) && [[ $cur != */* ]]; then
      while IFS= read -r line; do
        type -P -- "$line" >/dev/null || continue
        printf -v line %q "$line"
        COMPREPLY+=("$line")
      done < <(compgen -c -- "$cur" | sort -u) # a command may be in several directories
    fi
    return 0
  done

  words=("${COMP_WORDS[@]:0:COMP_CWORD}")
  [[ ${words[0]} == "~/"* ]] && words[0]=$HOME/${words[0]:2}
  [[ $cur == -* ]] && words+=("$cur")
  while IFS= read -r line; do # token:description
    token=${line%%:*}
    # A flag may be written with one dash, and is completed with two.
    [[ -n $token && ($token == "$cur"* || $token == -"$cur"*) ]] || continue
    tokens+=("$token") lines+=("${line#"$token"}")
    ((${#token} > longest)) && longest=${#token}
  done < <(command "${words[@]}" --generate-shell-completion 2>/dev/null </dev/null)
  if [[ ${COMP_TYPE-} == 63 ]] && ((${#tokens[@]} > 1)); then # bash lists the matches
    for i in "${!tokens[@]}"; do
      printf -v line '%-*s  %s' "$longest" "${tokens[i]}" "${lines[i]#:}"
      COMPREPLY+=("$line")
    done
    return 0
  fi
  COMPREPLY=("${tokens[@]}")
}

complete -o bashdefault -o default -F __quorumlock_complete quorumlock
