# How zsh runs a wrapped command: see wrap.bash. zsh has numbers of one digit for descriptors.
__yett_x=/proc/$$/exe
if [ ! -x "$__yett_x" ]; then __yett_x=/bin/zsh; fi
if ! "$__yett_x" -f -o extendedglob -n -c "$__yett_c" </dev/null >/dev/null 2>&1; then
	echo 'yett: exec: the command has a syntax error; nothing has run' >&2
elif __yett_exec --open -- "$__yett_c" </dev/null; then
	exec 6>&1 7>&2
	if exec >|"$__yett_d/out" 2>|"$__yett_d/err" 8>|"$__yett_d/end" 9<"$__yett_d/ack"; then
		__yett_end() { exec >/dev/null 2>&1; printf . >&8; IFS= read -r __yett_r <&9 || :; }
		# a trap for EXIT of a function runs when the function returns, and when the shell exits in it
		__yett_old() { eval "$__yett_c"; }
		__yett_run() { trap __yett_end EXIT; __yett_old "$@" 6>&- 7>&- 8>&- 9<&-; }
		__yett_run "$@"
		__yett_s=$?
		# they would print unscanned while the agent's own lines run
		trap - ZERR DEBUG
		exec >&6 2>&7 8>&- 9<&-
	fi
	exec 6>&- 7>&-
fi
