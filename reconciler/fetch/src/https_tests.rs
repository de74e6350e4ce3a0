use std::time::Duration;

use super::*;
use crate::AllowList;
use crate::loopback::{ok, redirect, serve};

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
    check("/a/elsewhere", "loopback, link-local or private");
    check("/a/out", "not on the allow-list");
    check("/a/loop", "more than 5 redirects");
    check("/a/large", "more than 100 bytes");
    check("/a/endless", "more than 100 bytes");
    check("/a/silent", "timed out");
    check("/a/broken", "500");
}

#[test]
fn a_host_may_send_on_to_others_that_the_allow_list_names() {
    let store = serve(|request, port| match request.path.as_str() {
        "/store/manifest.yaml?signature=secret" => ok("kind: X"),
        "/store/again" => redirect(&format!("http://127.0.0.1:{port}/store/manifest.yaml?signature=secret")),
        _ => redirect("https://169.254.169.254/latest/meta-data"),
    });
    let port = serve(move |request, _| match request.path.as_str() {
        "/plain" => redirect(&format!("http://127.0.0.1:{store}/store/manifest.yaml?signature=secret")),
        "/twice" => redirect(&format!("http://127.0.0.1:{store}/store/again")),
        "/metadata" => redirect(&format!("http://127.0.0.1:{store}/store/metadata")),
        "/user" => redirect(&format!("http://user:word@127.0.0.1:{store}/store/manifest.yaml")),
        "/scheme" => redirect("ftp://127.0.0.1/store/manifest.yaml"),
        "/nowhere" => redirect(""),
        _ => redirect(&format!("http://127.0.0.1:{store}/other/manifest.yaml?signature=secret")),
    });
    let get = |path: &str, allow: &[String]| {
        let private_hosts = vec!["127.0.0.1".to_owned()];
        let options = FetchOptions { allow: AllowList::new(allow), private_hosts, ..FetchOptions::default() };
        let https = Https::with_scheme(options, "http").unwrap();
        https.get(&format!("http://127.0.0.1:{port}{path}"))
    };
    let (first, both) = (format!("127.0.0.1:{port}"), format!("127.0.0.1:{store}/store"));
    let both = [first.clone(), both];
    for path in ["/plain", "/twice"] {
        assert_eq!(&*get(path, &both).unwrap(), b"kind: X", "{path}");
        // Without the second host, or outside of its path: named, and without what its address holds.
        let error = get(path, std::slice::from_ref(&first)).unwrap_err();
        let FetchError::SentOn { host, .. } = &error else { panic!("{error}") };
        assert_eq!(*host, format!("127.0.0.1:{store}"));
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    assert!(matches!(get("/outside", &both), Err(FetchError::SentOn { .. })));
    for (path, part) in [
        ("/metadata", "only http:// is fetched"),
        ("/user", "user information"),
        ("/scheme", "only http:// is fetched"),
        ("/nowhere", "more than 5 redirects"),
    ] {
        let error = get(path, &both).unwrap_err().to_string();
        assert!(error.contains(part), "{path}: {error}");
    }
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
