//go:build unix

package pictures

import (
	"bytes"
	"context"
	"image"
	"image/color"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// browser returns the program of a browser without a window.
func browser(t *testing.T) string {
	t.Helper()
	names := []string{"chromium", "chromium-browser", "google-chrome"}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skipf("SKIPPED: none of %s is installed (make chromium)", strings.Join(names, ", "))
	return ""
}

// The values of Blink's setting preferredColorScheme.
const (
	darkScheme  = "0"
	lightScheme = "1"
)

// screenshot renders a page. The browser ends when it has written its picture.
func screenshot(t *testing.T, program, scheme, page string) image.Image {
	t.Helper()
	dir, err := os.MkdirTemp("", "pictures-")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	from, to := filepath.Join(dir, "page.html"), filepath.Join(dir, "page.png")
	if err := os.WriteFile(from, []byte(page), 0o600); err != nil {
		t.Fatal(err)
	}
	// A browser that runs as root has no sandbox; all it gets is a page of this test's own.
	cmd := exec.CommandContext(ctx, program, "--headless", "--no-sandbox", "--disable-gpu",
		"--disable-dev-shm-usage", "--disable-breakpad",
		"--hide-scrollbars", "--force-device-scale-factor=1", "--force-color-profile=srgb",
		"--user-data-dir="+filepath.Join(dir, "profile"),
		"--blink-settings=preferredColorScheme="+scheme, "--window-size=960,900", "--screenshot="+to, "file://"+from)
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	t.Cleanup(func() {
		if cmd.Process != nil {
			_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // its helpers; most have ended
		}
		// A dying one may still write.
		for late := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if err := os.RemoveAll(dir); err == nil {
				return
			} else if time.Now().After(late) {
				t.Error(err)
				return
			}
		}
	})
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", program, err, &said)
	}
	f, err := os.Open(to)
	if err != nil {
		t.Fatalf("%v; %s said:\n%s", err, program, &said)
	}
	defer f.Close()
	shot, err := png.Decode(f)
	if err != nil {
		t.Fatal(err)
	}
	return shot
}

// within returns how many pixels of a rectangle have a colour, and the rectangle around them.
func within(shot image.Image, in image.Rectangle, want color.RGBA) (count int, around image.Rectangle) {
	for y := in.Min.Y; y < in.Max.Y; y++ {
		for x := in.Min.X; x < in.Max.X; x++ {
			if color.RGBAModel.Convert(shot.At(x, y)) == want {
				count++
				around = around.Union(image.Rect(x, y, x+1, y+1))
			}
		}
	}
	return count, around
}

// What a browser shows of a history in which two hold from 300 to 400 ms of 900 is red there, and nowhere
// else; of one in which nobody holds beside another, nothing is red. In light and in dark mode.
func TestBrowserShowsTwoHoldersInRed(t *testing.T) {
	program := browser(t)
	for mode, colours := range map[string]struct {
		scheme            string
		back, hold        color.RGBA
		clash, behindBoth color.RGBA
	}{
		"light": {lightScheme, color.RGBA{0xff, 0xff, 0xff, 0xff}, color.RGBA{0x09, 0x69, 0xda, 0xff},
			color.RGBA{0xcf, 0x22, 0x2e, 0xff}, color.RGBA{0xff, 0xd7, 0xd5, 0xff}},
		"dark": {darkScheme, color.RGBA{0x0d, 0x11, 0x17, 0xff}, color.RGBA{0x44, 0x93, 0xf8, 0xff},
			color.RGBA{0xff, 0x7b, 0x72, 0xff}, color.RGBA{0x4b, 0x11, 0x13, 0xff}},
	} {
		t.Run(mode, func(t *testing.T) {
			good := screenshot(t, program, colours.scheme, pageOf(t, runOf(500)))
			holds, _ := within(good, good.Bounds(), colours.hold)
			red, _ := within(good, good.Bounds(), colours.clash)
			band, _ := within(good, good.Bounds(), colours.behindBoth)
			if holds < 5000 || red > 0 || band > 0 || color.RGBAModel.Convert(good.At(1, 1)) != colours.back {
				t.Errorf("without two holders: %d pixels of holds, %d red, %d of a band, the page is %v", holds,
					red, band, good.At(1, 1))
			}

			bad := screenshot(t, program, colours.scheme, pageOf(t, runOf(300)))
			_, behind := within(bad, bad.Bounds(), colours.behindBoth)
			rows := image.Rect(0, behind.Min.Y, bad.Bounds().Max.X, behind.Max.Y) // without the title and the legend
			_, held := within(bad, rows, colours.hold)
			red, both := within(bad, rows, colours.clash)
			from, to := held.Min.X+held.Dx()*300/900, held.Min.X+held.Dx()*400/900
			near := func(a, b int) bool { return a-b <= 2 && b-a <= 2 }
			if !near(behind.Min.X, from) || !near(behind.Max.X, to) || !near(both.Min.X, from) || !near(both.Max.X,
				to) || red < 500 {
				t.Errorf("two hold from %d to %d of %v: the band is %v, and %d pixels in %v are red", from, to,
					held, behind, red, both)
			}
		})
	}
}
