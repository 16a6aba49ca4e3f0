// Package launch starts a program in two steps: it starts a process of this program, which becomes the other program
// when it is told to. So the process id is known, and can be written down, before the program runs.
package launch
