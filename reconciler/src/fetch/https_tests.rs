use std::time::Duration;

use super::*;
use crate::fetch::loopback::{ok, redirect, serve};

fn fetcher(port: u16, private_hosts: &[&str]) -> Https {
    let options = FetchOptions {
        allow: AllowList::new([format!("127.0.0.1:{port}/a"), format!("localhost:{port}")]),
        private_hosts: private_hosts.iter().map(ToString::to_string).collect(),
        maximum_bytes: 100,
        timeout: Duration::from_millis(1500),
    };
    Https::with_scheme(options, "http").unwrap()
}

#[test]
fn answers_of_allowed_hosts_are_fetched() {
    let port = serve(|request, port| match request.path.as_str() {
        "/a/manifest.yaml" => ok("kind: X"),
        "/a/moved" => redirect("/a/manifest.yaml"),
        "/a/elsewhere" => redirect(&format!("http://localhost:{port}/a/manifest.yaml")),
        "/a/out" => redirect("/b/manifest.yaml"),
        "/a/loop" => redirect("/a/loop"),
        "/a/large" => ok(&"x".repeat(101)),
        "/a/endless" => format!("HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n{}", "x".repeat(1000)),
        "/a/silent" => String::new(),
        "/a/broken" => "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(),
        _ => "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(),
    });
    let https = fetcher(port, &["127.0.0.1"]);
    let get = |path: &str| https.get(&format!("http://127.0.0.1:{port}{path}"));
    assert_eq!(&*get("/a/manifest.yaml").unwrap(), b"kind: X");
    assert_eq!(&*get("/a/moved").unwrap(), b"kind: X");
    assert!(matches!(get("/a/missing"), Err(FetchError::NotFound { .. })));
    assert!(matches!(get("/b/manifest.yaml"), Err(FetchError::NotAllowed { .. })));
    let check = |path: &str, part: &str| {
        let error = get(path).unwrap_err().to_string();
        assert!(error.contains(part), "{path}: {error}");
    };
    check("/a/elsewhere", "another host");
    check("/a/out", "not on the allow-list");
    check("/a/loop", "more than 5 redirects");
    check("/a/large", "more than 100 bytes");
    check("/a/endless", "more than 100 bytes");
    check("/a/silent", "timed out");
    check("/a/broken", "500");
}

#[test]
fn inner_addresses_are_refused_unless_configured() {
    let port = serve(|_, _| ok("secret"));
    let literal = fetcher(port, &[]).get(&format!("http://127.0.0.1:{port}/a")).unwrap_err().to_string();
    assert!(literal.contains("127.0.0.1 is a loopback"), "{literal}");
    let named = fetcher(port, &[]).get(&format!("http://localhost:{port}/a")).unwrap_err().to_string();
    assert!(named.contains("loopback, link-local or private"), "{named}");
    assert_eq!(&*fetcher(port, &["localhost"]).get(&format!("http://localhost:{port}/a")).unwrap(), b"secret");
}

#[test]
fn only_https_is_fetched() {
    let options = FetchOptions { allow: AllowList::new(["example.org"]), ..FetchOptions::default() };
    let https = Https::new(options).unwrap();
    for uri in
        ["http://example.org/a", "file:///etc/passwd", "https://user:word@example.org/a", "embed:///a", "<placeholder>"]
    {
        assert!(matches!(https.get(uri), Err(FetchError::NotFound { .. })), "{uri}");
    }
    assert!(matches!(https.get("https://example.net/a"), Err(FetchError::NotAllowed { .. })));
}

#[test]
fn it_works_on_a_thread_of_a_runtime() {
    let port = serve(|_, _| ok("kind: X"));
    let https = fetcher(port, &["127.0.0.1"]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bytes = runtime.block_on(async { https.get(&format!("http://127.0.0.1:{port}/a/b")) });
    assert_eq!(&*bytes.unwrap(), b"kind: X");
}
