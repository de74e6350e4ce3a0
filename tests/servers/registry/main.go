// A real registry (github.com/distribution/distribution) for tests, on loopback with TLS and with each kind of login.
//
//	registry FOLDER open|password|token
//
// FOLDER/data holds what is stored, FOLDER/ca.pem the authority of the certificates. The first line of standard output is
// the address; in the mode token, that of the token server is the second. The login is "reader" with "open sesame", or the identity token "lasting"; in the mode token, repositories
// below "public" need none. It ends when standard input does.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/handlers"
	"golang.org/x/crypto/bcrypt"

	_ "github.com/distribution/distribution/v3/registry/auth/htpasswd"
	_ "github.com/distribution/distribution/v3/registry/auth/token"
	_ "github.com/distribution/distribution/v3/registry/storage/driver/filesystem"
)

const (
	name          = "reader"
	password      = "open sesame"
	identityToken = "lasting"
	service       = "registry of tests"
	issuer        = "token server of tests"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: registry FOLDER open|password|token")
	}
	if err := run(os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}

func run(folder, mode string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	certificate, err := newCertificate(filepath.Join(folder, "ca.pem"))
	if err != nil {
		return err
	}
	config := &configuration.Configuration{
		Storage: configuration.Storage{"filesystem": {"rootdirectory": filepath.Join(folder, "data")}},
	}
	config.Log.Level = "error"
	config.HTTP.Secret = "of tests"
	addresses := []string{}
	switch mode {
	case "open":
	case "password":
		config.Auth, err = passwords(folder)
	case "token":
		var server string
		server, config.Auth, err = tokens(folder, certificate)
		addresses = append(addresses, server)
	default:
		err = fmt.Errorf("unknown mode %q", mode)
	}
	if err != nil {
		return err
	}
	address, err := serve(certificate, handlers.NewApp(context.Background(), config))
	if err != nil {
		return err
	}
	fmt.Println(strings.Join(append([]string{address}, addresses...), "\n"))
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// serve listens on a free port of loopback and returns its address.
func serve(certificate *tls.Certificate, handler http.Handler) (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	config := &tls.Config{Certificates: []tls.Certificate{*certificate}, NextProtos: []string{"http/1.1"}}
	go func() { log.Fatal(http.Serve(tls.NewListener(listener, config), handler)) }()
	return listener.Addr().String(), nil
}

func passwords(folder string) (configuration.Auth, error) {
	hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
	if err != nil {
		return nil, err
	}
	path := filepath.Join(folder, "htpasswd")
	if err := os.WriteFile(path, fmt.Appendf(nil, "%s:%s\n", name, hash), 0o600); err != nil {
		return nil, err
	}
	return configuration.Auth{"htpasswd": {"realm": service, "path": path}}, nil
}
