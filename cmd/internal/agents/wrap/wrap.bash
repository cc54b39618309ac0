# How bash runs a wrapped command, with the command in __yett_c, its pipes in __yett_d, and __yett_exec to run yett.
# Wrap takes the comments out.
#
# eval runs the lines before a syntax error: the whole command is parsed first
if ! BASH_ENV= "$BASH" -O extglob -n -c "$__yett_c" </dev/null >/dev/null 2>&1; then
	echo 'yett: exec: the command has a syntax error; nothing has run' >&2
elif __yett_exec --open -- "$__yett_c" </dev/null; then
	# exec and not a redirected group: a group's redirections are undone before a trap for EXIT runs
	exec 63>&1 64>&2
	if exec >|"$__yett_d/out" 2>|"$__yett_d/err" 61>|"$__yett_d/end" 62<"$__yett_d/ack"; then
		__yett_x=$(trap -p EXIT)
		# in its POSIX mode bash names what has no trap too, with a hyphen for the command
		__yett_old() { eval "set -- $__yett_x"; case "${3-}" in -) ;; *) eval "${3-}" ;; esac; }
		# the shell lets go of the pipes first: what else holds them stays behind
		__yett_end() { exec >/dev/null 2>&1; printf . >&61; IFS= read -r -u 62 __yett_r || :; }
		# what the command prints until an exit of its own is out before the shell ends
		trap '__yett_s=$?; __yett_old; __yett_end; exit "$__yett_s"' EXIT
		__yett_o=$(trap -p)
		# children get neither the agent's own stdout and stderr nor a say about the end
		{ eval "$__yett_c"; } 61>&- 62<&- 63>&- 64>&-
		__yett_s=$?
		__yett_n=$(trap -p)
		if [ "$__yett_n" = "$__yett_o" ]; then
			trap - EXIT
			eval "$__yett_x"
		else
			# the command has set traps, which would print unscanned when they run later
			__yett_mute() {
				case "${3-}" in
				*__yett_end*) trap - EXIT; __yett_o= ;;
				'' | -) ;;
				*) trap -- "{ $3
} >/dev/null 2>&1" "$4" ;;
				esac
			}
			for __yett_g in DEBUG ERR RETURN; do eval "__yett_mute $(trap -p $__yett_g)"; done
			__yett_g=0
			while [ "$__yett_g" -le 64 ]; do
				eval "__yett_mute $(trap -p "$__yett_g" 2>/dev/null)"
				__yett_g=$((__yett_g + 1))
			done
			if [ -z "$__yett_o" ]; then eval "$__yett_x"; fi
		fi
		__yett_end
		exec >&63 2>&64 61>&- 62<&-
	fi
	exec 63>&- 64>&-
fi
