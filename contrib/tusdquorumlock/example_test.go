package tusdquorumlock_test

import (
	"fmt"
	"log"
	"net/http"
	"os"

	"github.com/quorumlock/quorumlock/contrib/tusdquorumlock"
	"github.com/quorumlock/quorumlock/quorum"
	"github.com/quorumlock/quorumlock/quorumtest"
	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"
)

// docs/tusd.md quotes serve.

func serve(locker *quorum.Locker, dir string) (http.Handler, error) {
	uploads, err := tusdquorumlock.New(locker)
	if err != nil {
		return nil, err
	}
	composer := handler.NewStoreComposer()
	filestore.New(dir).UseIn(composer) // that all servers share
	uploads.UseIn(composer)
	h, err := handler.NewHandler(handler.Config{BasePath: "/files/", StoreComposer: composer})
	if err != nil {
		return nil, err
	}
	return http.StripPrefix("/files/", h), nil
}

// An upload is created at one of two servers. The client sends five bytes, and then nothing: its
// connection is dead, and the first server has not noticed. It goes on at the second.
func Example() {
	masters, end := quorumtest.ForExample(3)
	defer end()
	locker, other := masters.Locker(), masters.Locker() // yours: redlock.Open(urls)
	dir, err := os.MkdirTemp("", "uploads")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	first, second := start(serve, locker, dir), start(serve, other, dir)
	defer second.Close()
	defer first.Close()

	upload := first.create(10)
	broken := first.begin(upload, 0, "hello", 10)
	defer broken.Close()
	fmt.Println("arrived:", second.offset(upload))
	fmt.Println(second.send(upload, 5, "world"))
	// Output:
	// arrived: 5
	// 204 No Content
}
