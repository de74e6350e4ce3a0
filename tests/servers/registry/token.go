package main

import (
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"log"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"github.com/distribution/distribution/v3/configuration"
	"github.com/distribution/distribution/v3/registry/auth/token"
	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// tokens starts a token server beside the registry and returns its address.
func tokens(folder string, certificate *tls.Certificate) (string, configuration.Auth, error) {
	options := &jose.SignerOptions{}
	options.WithType("JWT").WithHeader("x5c", []string{base64.StdEncoding.EncodeToString(certificate.Certificate[0])})
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: certificate.PrivateKey}, options)
	if err != nil {
		return "", nil, err
	}
	handler := http.HandlerFunc(func(writer http.ResponseWriter, request *http.Request) { issue(writer, request, signer) })
	address, err := serve(certificate, handler)
	if err != nil {
		return "", nil, err
	}
	return address, configuration.Auth{"token": {
		"realm":          "https://" + address + "/token",
		"service":        service,
		"issuer":         issuer,
		"rootcertbundle": filepath.Join(folder, "ca.pem"),
	}}, nil
}

func issue(writer http.ResponseWriter, request *http.Request, signer jose.Signer) {
	given, secret, hasPassword := request.BasicAuth()
	known := hasPassword && given == name && secret == password ||
		request.PostFormValue("grant_type") == "refresh_token" && request.PostFormValue("refresh_token") == identityToken
	if hasPassword && !known {
		http.Error(writer, "no such login", http.StatusUnauthorized)
		return
	}
	if request.FormValue("service") != service {
		http.Error(writer, "another service", http.StatusBadRequest)
		return
	}
	granted := []*token.ResourceActions{}
	for _, scope := range request.Form["scope"] {
		parts := strings.Split(scope, ":")
		if len(parts) == 3 && (known || strings.HasPrefix(parts[1], "public/")) {
			actions := strings.Split(parts[2], ",")
			granted = append(granted, &token.ResourceActions{Type: parts[0], Name: parts[1], Actions: actions})
		}
	}
	now := time.Now()
	claims := map[string]any{
		"iss": issuer, "aud": service, "sub": given, "jti": "of tests", "access": granted,
		"iat": now.Unix(), "nbf": now.Add(-time.Minute).Unix(), "exp": now.Add(time.Minute).Unix(),
	}
	text, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		log.Fatal(err)
	}
	writer.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(writer).Encode(map[string]string{"token": text})
}
