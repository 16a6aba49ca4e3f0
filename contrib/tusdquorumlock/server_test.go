package tusdquorumlock_test

import (
	"bufio"
	"fmt"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/quorumlock/quorumlock/internal/poll"
	"github.com/quorumlock/quorumlock/internal/testkit"
	"github.com/quorumlock/quorumlock/quorum"
	"go.uber.org/goleak"
	tusdlog "golang.org/x/exp/slog"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler))
	devNull, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	check(err)
	tusdlog.SetDefault(tusdlog.New(tusdlog.NewTextHandler(devNull, nil)))
	// tusd keeps a goroutine for the GracefulRequestCompletionTimeout after each request.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/tus/tusd/v2/pkg/handler.newDelayedContext.func1"))
}

// check ends the process on an error: the servers are an example's, too.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// server is a tusd server, as a client sees it.
type server struct {
	*httptest.Server
	dir string
}

// start starts a server in this process, which has a locker of its own.
func start(handler func(*quorum.Locker, string) (http.Handler, error), locker *quorum.Locker, dir string) *server {
	h, err := handler(locker, dir)
	check(err)
	return &server{httptest.NewServer(h), dir}
}

func (s *server) Close() {
	s.Server.CloseClientConnections() // those of clients that are gone
	s.Server.Close()
}

// request makes one request of the protocol.
func (s *server) request(method, path string, header map[string]string, body string) *http.Response {
	r, err := http.NewRequest(method, s.URL+path, strings.NewReader(body))
	check(err)
	r.Header.Set("Tus-Resumable", "1.0.0")
	for name, value := range header {
		r.Header.Set(name, value)
	}
	resp, err := s.Client().Do(r)
	check(err)
	resp.Body.Close()
	return resp
}

// create creates an upload, and returns its path.
func (s *server) create(size int) (path string) {
	resp := s.request("POST", "/files/", map[string]string{"Upload-Length": strconv.Itoa(size)}, "")
	if resp.StatusCode != http.StatusCreated {
		log.Fatal(resp.Status)
	}
	return strings.TrimPrefix(resp.Header.Get("Location"), s.URL)
}

// begin sends the first bytes of a request with more of them, and returns when they are stored. The
// connection stays open and silent, like that of a client which has lost its network.
func (s *server) begin(path string, offset int, text string, size int) net.Conn {
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	check(err)
	fmt.Fprintf(conn, "PATCH %s HTTP/1.1\r\nHost: tusd\r\nTus-Resumable: 1.0.0\r\nUpload-Offset: %d\r\n"+
		"Content-Type: application/offset+octet-stream\r\nContent-Length: %d\r\n\r\n%s", path, offset, size-offset, text)
	if !poll.Until(patience, func() bool { return len(s.stored(path)) == offset+len(text) }) {
		log.Fatalf("stored: %q", s.stored(path))
	}
	return conn
}

// stored returns what the server has of an upload.
func (s *server) stored(path string) string {
	text, err := os.ReadFile(filepath.Join(s.dir, filepath.Base(path)))
	check(err)
	return string(text)
}

// offset asks where to resume.
func (s *server) offset(path string) string {
	resp := s.request("HEAD", path, nil, "")
	if resp.StatusCode != http.StatusOK {
		return resp.Status
	}
	return resp.Header.Get("Upload-Offset")
}

// send sends the bytes from an offset on.
func (s *server) send(path string, offset int, text string) (status string) {
	return s.request("PATCH", path, map[string]string{
		"Upload-Offset": strconv.Itoa(offset), "Content-Type": "application/offset+octet-stream",
	}, text).Status
}

// response reads the response to a request that was begun, until the server ends it.
func response(t *testing.T, conn net.Conn) (status, body string) {
	t.Helper()
	testkit.Must(t, conn.SetReadDeadline(time.Now().Add(patience)))
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("no response: %v", err)
	}
	defer resp.Body.Close()
	text := make([]byte, 1000)
	n, _ := resp.Body.Read(text)
	return resp.Status, string(text[:n])
}
