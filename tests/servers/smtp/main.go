// A real mail server (github.com/emersion/go-smtp) for tests, on loopback: STARTTLS, a login, and a folder of what came.
//
//	smtp FOLDER
//
// FOLDER/ca.pem is the authority of its certificate, FOLDER/NUMBER.eml each message that came. The first line of standard output is
// the address. The login is "reader" with "open sesame"; without TLS and the login nothing is taken. Recipients whose name begins
// with "later" are put off (451), with "never" refused (550). It ends when standard input does.
package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/emersion/go-sasl"
	"github.com/emersion/go-smtp"
)

const (
	name     = "reader"
	password = "open sesame"
)

func main() {
	if len(os.Args) != 2 {
		log.Fatal("usage: smtp FOLDER")
	}
	if err := run(os.Args[1]); err != nil {
		log.Fatal(err)
	}
}

func run(folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	certificate, err := newCertificate(filepath.Join(folder, "ca.pem"))
	if err != nil {
		return err
	}
	server := smtp.NewServer(&backend{folder: folder})
	server.Domain = "localhost"
	server.ReadTimeout = time.Minute
	server.WriteTimeout = time.Minute
	server.MaxMessageBytes = 1 << 20
	server.TLSConfig = &tls.Config{Certificates: []tls.Certificate{*certificate}}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(listener.Addr())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}()
	return server.Serve(listener)
}

type backend struct {
	folder string
	mutex  sync.Mutex
	count  int
}

func (b *backend) NewSession(*smtp.Conn) (smtp.Session, error) {
	return &session{backend: b}, nil
}

type session struct {
	backend *backend
	known   bool
}

func (s *session) AuthMechanisms() []string {
	return []string{sasl.Plain}
}

func (s *session) Auth(string) (sasl.Server, error) {
	return sasl.NewPlainServer(func(_, user, given string) error {
		if user != name || given != password {
			return errors.New("wrong name or password")
		}
		s.known = true
		return nil
	}), nil
}

func (s *session) Mail(string, *smtp.MailOptions) error {
	if !s.known {
		return smtp.ErrAuthRequired
	}
	return nil
}

func (s *session) Rcpt(to string, _ *smtp.RcptOptions) error {
	switch {
	case strings.HasPrefix(to, "later"):
		return &smtp.SMTPError{Code: 451, EnhancedCode: smtp.EnhancedCode{4, 3, 0}, Message: "come again"}
	case strings.HasPrefix(to, "never"):
		return &smtp.SMTPError{Code: 550, EnhancedCode: smtp.EnhancedCode{5, 1, 1}, Message: "nobody of that name"}
	}
	return nil
}

func (s *session) Data(reader io.Reader) error {
	message, err := io.ReadAll(reader)
	if err != nil {
		return err
	}
	s.backend.mutex.Lock()
	defer s.backend.mutex.Unlock()
	s.backend.count++
	file := filepath.Join(s.backend.folder, fmt.Sprintf("%03d.eml", s.backend.count))
	if err := os.WriteFile(file+".part", message, 0o644); err != nil {
		return err
	}
	return os.Rename(file+".part", file)
}

func (s *session) Reset() {}

func (s *session) Logout() error {
	return nil
}
