// Package launch starts a program in two steps: first a process of this program's own, and when that is told to go, it
// becomes the other program. So its number is known, and can be written down, before anything of it runs.
package launch
