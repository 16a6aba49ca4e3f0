package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ory/dockertest/v3"
	dc "github.com/ory/dockertest/v3/docker"

	"github.com/quorumlock/quorumlock/internal/redistest"

	"github.com/quorumlock/quorumlock/internal/backstage"
)

const (
	registryImage = "redis"
	registryTag   = "7-alpine"
	pullBound     = time.Minute
	buildBound    = time.Minute
)

// image is the image that masters are started from.
type image struct {
	repository, tag string
	kind            string
}

// findImage uses redis:7-alpine if it is present or can be pulled. Otherwise, or if the
// environment names a server, it builds an image from this machine's server.
func findImage(pool *dockertest.Pool, run string) (image, error) {
	if os.Getenv(redistest.BinaryVariable) != "" {
		return buildImage(pool, run)
	}
	name := registryImage + ":" + registryTag
	if _, err := pool.Client.InspectImage(name); err == nil {
		return image{registryImage, registryTag, name + " (found on this machine)"}, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), pullBound)
	defer cancel()
	pulled := pool.Client.PullImage(dc.PullImageOptions{Repository: registryImage, Tag: registryTag, Context: ctx},
		dc.AuthConfiguration{})
	if pulled == nil {
		return image{registryImage, registryTag, name + " (pulled)"}, nil
	}
	built, err := buildImage(pool, run)
	if err != nil {
		err = errors.Join(pulled, err)
	}
	return built, err
}

// buildImage makes an image of the host's server and its libraries, with nothing else in it.
func buildImage(pool *dockertest.Pool, run string) (image, error) {
	server, err := redistest.FindBinary()
	if err != nil {
		return image{}, err
	}
	files, err := libraries(server.Path)
	if err != nil {
		return image{}, err
	}
	layout, err := buildContext(server.Path, files)
	if err != nil {
		return image{}, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), buildBound)
	defer cancel()
	built := image{"quorumlock-redis", strings.ToLower(run), server.String() + " of this machine"}
	var said bytes.Buffer
	err = pool.Client.BuildImage(dc.BuildImageOptions{
		Name: built.repository + ":" + built.tag, Labels: map[string]string{backstage.Label: run}, InputStream: layout,
		OutputStream:   &said,
		RmTmpContainer: true, ForceRmTmpContainer: true, Context: ctx,
	})
	if err != nil {
		return image{}, fmt.Errorf("build an image: %w: %s", err, strings.TrimSpace(said.String()))
	}
	return built, nil
}

// libraries lists the files that the dynamic linker loads for a program, and the program.
func libraries(program string) ([]string, error) {
	out, err := exec.Command("ldd", program).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w", program, err)
	}
	// "libm.so.6 => /lib/libm.so.6 (0x…)", "/lib64/ld-linux-x86-64.so.2 (0x…)", "linux-vdso.so.1 (0x…)"
	words := strings.Fields(string(out))
	return slices.DeleteFunc(words, func(word string) bool { return !filepath.IsAbs(word) }), nil
}

// buildContext packs the Dockerfile and the files, each at its path on this machine.
func buildContext(server string, libraries []string) (io.Reader, error) {
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	add := func(name string, text []byte) error {
		header := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))})
		_, err := archive.Write(text)
		return errors.Join(header, err)
	}
	if err := add("Dockerfile", []byte("FROM scratch\nCOPY root /\nWORKDIR /data\n")); err != nil {
		return nil, err
	}
	names := map[string]string{server: "/usr/local/bin/redis-server"} // on PATH, as in the registry's images
	for _, library := range libraries {
		names[library] = library
	}
	for path, name := range names {
		text, err := os.ReadFile(path)
		if err := errors.Join(err, add("root"+name, text)); err != nil {
			return nil, err
		}
	}
	return &packed, archive.Close()
}
