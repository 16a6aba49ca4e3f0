# Prints what the public packages export, on linux/amd64: make api writes it to api.txt, make lint compares it.
# Package scripts is not public, by its documentation.
set -e
for dir in $(find * -name '*.go' ! -name '*_test.go' | sed 's|[^/]*$||' | sort -u | grep -vE '^(bench|cmd|integration|scripts)/|(^|/)(internal|testdata)/'); do
	GOOS=linux GOARCH=amd64 ${GO:-go} doc -C "$dir" -all . | awk -v "package=${dir%/}" '
		/^(CONSTANTS|VARIABLES|FUNCTIONS|TYPES)$/ { declarations = 1; next }
		!declarations || /^ / || /^$/ || /^\t+\/\// && !/Has unexported/ { next }
		package { print "\n# " package; package = "" }
		/^(var |\t)Err/ { sub(/ = .*/, "") } # a value may change
		{ sub(/ +\/\/ .*/, ""); gsub(/  +/, " "); print }'
done
