use std::sync::Arc;

use axum::body::Bytes;
use axum::routing::{get, post};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsConnector;

use super::*;

const PATIENT: Limits = Limits {
    connections: 8,
    header: Duration::from_secs(600),
    request: Duration::from_secs(600),
    connection: Duration::from_secs(600),
};

/// An endpoint that ends with the test.
struct Served(SocketAddr, JoinHandle<()>);

impl Served {
    async fn with(limits: Limits, tls: Option<TlsFiles>) -> Self {
        let hang = || async {
            std::future::pending::<()>().await;
        };
        let router = Router::new()
            .route("/", get(async || "here"))
            .route("/", post(async |body: Bytes| body.len().to_string()))
            .route("/hangs", get(hang));
        let endpoint = Endpoint::bind("test", SocketAddr::from(([127, 0, 0, 1], 0)), router).await.unwrap();
        let address = endpoint.listener.local_addr().unwrap();
        Self(address, endpoint.with_limits(limits).with_tls(tls).serve())
    }

    /// A connection on which this much of a request was sent.
    async fn send(&self, text: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.0).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        stream
    }

    async fn get(&self) -> String {
        said(self.send("GET / HTTP/1.1\r\nHost: test\r\n\r\n").await).await
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.1.abort();
    }
}

/// Everything until the connection is closed, as far as it comes.
async fn said(mut stream: impl AsyncRead + Unpin) -> String {
    let mut bytes = Vec::new();
    // One that is cut off may end by a reset.
    let _ = stream.read_to_end(&mut bytes).await;
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn half_requests_are_ended_to_make_room_for_whole_ones() {
    let served = Served::with(PATIENT, None).await;
    let mut half = Vec::new();
    for text in
        ["", "GET /hea", "GET / HTTP/1.1\r\nHost: a\r\n", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nfour"]
    {
        for _ in 0..3 * PATIENT.connections {
            half.push(served.send(text).await);
        }
        assert!(served.get().await.ends_with("\r\n\r\nhere"), "after {text:?}");
    }
    // The first of them is not held open any more.
    assert_eq!(said(half.remove(0)).await, "");
}

#[tokio::test]
async fn every_part_of_a_request_has_an_end() {
    let short = Duration::from_millis(50);
    let header = Served::with(Limits { header: short, ..PATIENT }, None).await;
    assert!(!said(header.send("GET / HTTP/1.1\r\nHost: a\r\n").await).await.contains("200"));
    let request = Served::with(Limits { request: short, ..PATIENT }, None).await;
    let half = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nfour";
    for text in [half, "GET /hangs HTTP/1.1\r\nHost: a\r\n\r\n"] {
        assert!(said(request.send(text).await).await.starts_with("HTTP/1.1 408"), "{text}");
    }
    let connection = Served::with(Limits { connection: short, ..PATIENT }, None).await;
    assert_eq!(said(connection.send(half).await).await, "");
}

#[tokio::test]
async fn a_connection_carries_one_request() {
    let served = Served::with(PATIENT, None).await;
    let twice = "GET / HTTP/1.1\r\nHost: a\r\n\r\n".repeat(2);
    assert_eq!(said(served.send(&twice).await).await.matches("HTTP/1.1 200").count(), 1);
    let long = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(4 * LONGEST_HEADER));
    assert!(!said(served.send(&long).await).await.contains("200"));
}

#[test]
fn few_descriptors_allow_few_connections() {
    let allowed = |descriptors| Limits::within(descriptors).connections;
    assert_eq!([None, Some(1 << 20), Some(256), Some(8)].map(allowed), [64, 64, 16, 4]);
}

/// Writes a new certificate for `test`.
fn certify(folder: &std::path::Path) -> CertificateDer<'static> {
    let made = rcgen::generate_simple_self_signed(vec!["test".to_owned()]).unwrap();
    std::fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
    std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
    made.cert.der().clone()
}

/// The answer to somebody who trusts this certificate alone; none where another one is served.
async fn trusting(served: &Served, certificate: &CertificateDer<'static>) -> Option<String> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let connector = TlsConnector::from(Arc::new(config.with_root_certificates(roots).with_no_client_auth()));
    let stream = TcpStream::connect(served.0).await.unwrap();
    let mut stream = connector.connect(ServerName::try_from("test").unwrap(), stream).await.ok()?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n").await.unwrap();
    Some(said(stream).await)
}

#[tokio::test]
async fn a_replaced_certificate_is_served_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(TlsFiles::open(folder.path()), Err(TlsError::File { .. })));
    let first = certify(folder.path());
    let served = Served::with(PATIENT, Some(TlsFiles::open(folder.path()).unwrap())).await;
    assert!(trusting(&served, &first).await.unwrap().ends_with("here"));
    let second = certify(folder.path());
    assert_eq!(trusting(&served, &first).await, None);
    assert!(trusting(&served, &second).await.unwrap().ends_with("here"));
    std::fs::write(folder.path().join("tls.key"), "no key").unwrap();
    assert!(trusting(&served, &second).await.unwrap().ends_with("here"));
    std::fs::remove_file(folder.path().join("tls.crt")).unwrap();
    assert!(trusting(&served, &second).await.unwrap().ends_with("here"));
    // Half a handshake takes no place for long either, and whoever speaks no TLS is told nothing.
    assert!(!served.get().await.contains("here"));
}
