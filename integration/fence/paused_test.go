//go:build unix

package fence_test

func holderProcess() int { return 0 }
