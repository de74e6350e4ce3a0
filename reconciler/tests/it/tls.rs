//! Endpoints by TLS: certificates as Kubernetes mounts and replaces them, and requests without TLS.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::listening::{Running, get};
use crate::support::Fleet;

/// What a certificate is for.
pub(crate) const NAME: &str = "stepgate.example.com";

const SECRET: &str = "s3cret";

/// A folder with a certificate, as the kubelet mounts a Secret: whoever reads goes through one
/// link, which is exchanged.
pub(crate) struct Mounted {
    pub(crate) folder: PathBuf,
    versions: u32,
}

impl Mounted {
    pub(crate) fn at(folder: PathBuf) -> Self {
        std::fs::create_dir(&folder).unwrap();
        for name in ["tls.crt", "tls.key"] {
            std::os::unix::fs::symlink(Path::new("..data").join(name), folder.join(name)).unwrap();
        }
        Self { folder, versions: 0 }
    }

    /// Puts a new certificate there, and returns it.
    pub(crate) fn renew(&mut self) -> CertificateDer<'static> {
        let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()]).unwrap();
        self.versions += 1;
        let version = format!("..version-{}", self.versions);
        let folder = self.folder.join(&version);
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(folder.join("tls.crt"), made.cert.pem()).unwrap();
        std::fs::write(folder.join("tls.key"), made.signing_key.serialize_pem()).unwrap();
        let link = self.folder.join("..next");
        std::os::unix::fs::symlink(version, &link).unwrap();
        std::fs::rename(link, self.folder.join("..data")).unwrap();
        made.cert.der().clone()
    }
}

/// The answer to somebody who trusts this certificate alone; none where another one is served.
pub(crate) fn trusting(certificate: &CertificateDer<'static>, address: SocketAddr, request: &str) -> Option<String> {
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let config = Arc::new(config.with_root_certificates(roots).with_no_client_auth());
    let connection = ClientConnection::new(config, ServerName::try_from(NAME).unwrap()).unwrap();
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    stream.write_all(request.as_bytes()).ok()?;
    let mut text = String::new();
    // One that closes without a word of TLS has said all before.
    let _ = stream.read_to_string(&mut text);
    Some(text)
}

/// A push as Gitea tells of it, signed.
fn push(delivery: &str) -> String {
    // What is signed twice is refused as a replay.
    let body = format!(r#"{{"ref":"refs/heads/main","after":"{delivery}"}}"#);
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, SECRET.as_bytes());
    let signature: String =
        ring::hmac::sign(&key, body.as_bytes()).as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    format!(
        "POST / HTTP/1.1\r\nHost: {NAME}\r\nX-Gitea-Event: push\r\nX-Gitea-Delivery: {delivery}\r\nX-Gitea-Signature: {signature}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

#[test]
fn endpoints_by_tls_serve_replaced_certificates_and_no_plain_request() {
    let fleet = Fleet::settled();
    let secret = fleet.folder().join("secret");
    std::fs::write(&secret, SECRET).unwrap();
    let [mut webhook_files, mut metrics_files] =
        ["webhook-tls", "metrics-tls"].map(|name| Mounted::at(fleet.folder().join(name)));
    let first = [&mut webhook_files, &mut metrics_files].map(Mounted::renew);
    let (free, path) = ("127.0.0.1:0", |path: &Path| path.to_str().unwrap().to_owned());
    let (secret, webhook_dir, metrics_dir) = (path(&secret), path(&webhook_files.folder), path(&metrics_files.folder));
    let named =
        ["--health-address", free, "--listen", free, "--webhook-address", free, "--webhook-secret-file", &secret];
    let tls = ["--webhook-tls-dir", &webhook_dir, "--metrics-tls-dir", &metrics_dir];
    let running = Running::start(&fleet, &[&named[..], &tls].concat());
    let [webhook, health, metrics] = ["webhook at https", "health at http:", "metrics at https"].map(|text| {
        let line = running.says(text);
        line.rsplit("//").next().unwrap().trim().parse::<SocketAddr>().unwrap()
    });
    running.says("`team-b` is done");

    let scrape = format!("GET /metrics HTTP/1.1\r\nHost: {NAME}\r\n\r\n");
    let answers = |certificates: &[CertificateDer<'static>; 2], delivery: &str| {
        [
            trusting(&certificates[0], webhook, &push(delivery)).filter(|text| text.starts_with("HTTP/1.1 202")),
            trusting(&certificates[1], metrics, &scrape).filter(|text| text.contains("stepgate_passes_total")),
        ]
        .map(|answer| answer.is_some())
    };
    assert_eq!(answers(&first, "first"), [true, true]);
    let [other_metrics, other_webhook] = [first[1].clone(), first[0].clone()];
    assert_eq!(answers(&[other_metrics, other_webhook], "crossed"), [false, false], "each has its own");

    // Each is replaced by itself, while the process runs.
    let second = [webhook_files.renew(), first[1].clone()];
    assert_eq!((answers(&second, "second"), answers(&first, "third")), ([true, true], [false, true]));
    let third = [second[0].clone(), metrics_files.renew()];
    assert_eq!((answers(&third, "fourth"), answers(&second, "fifth")), ([true, true], [true, false]));

    // Without TLS nobody is told anything, and nothing that was sent so counts.
    for address in [webhook, metrics] {
        assert!(!plain(address, &scrape).contains("stepgate_"), "{address}");
    }
    assert!(!plain(webhook, &push("sixth")).contains("HTTP/1.1 2"));
    assert_eq!(answers(&third, "sixth"), [true, true], "it would be a replay, had it been heard before");
    assert!(get(health, "/healthz").starts_with("HTTP/1.1 200"), "probes of the kubelet need no certificate");
}

/// Whatever is answered to a request without TLS.
fn plain(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let _ = stream.write_all(request.as_bytes());
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn a_folder_without_a_certificate_is_refused_before_anything_is_done() {
    let fleet = Fleet::settled();
    let (empty, secret) = (fleet.folder().join("empty"), fleet.folder().join("secret"));
    std::fs::create_dir(&empty).unwrap();
    std::fs::write(&secret, SECRET).unwrap();
    let (empty, secret) = (empty.to_str().unwrap(), secret.to_str().unwrap());
    let webhook = ["--webhook-address", "127.0.0.1:0", "--webhook-secret-file", secret, "--webhook-tls-dir", empty];
    for arguments in [&webhook[..], &["--metrics-tls-dir", empty]] {
        let run = fleet.run(&[&["run", "--once"], arguments].concat());
        assert_eq!((run.code, run.stdout.as_str()), (2, ""), "{arguments:?}");
        assert!(run.stderr.contains("tls.crt"), "{}", run.stderr);
    }
}
