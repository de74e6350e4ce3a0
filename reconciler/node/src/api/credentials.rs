//! Who this program is for the API server: the `ServiceAccount` of its Pod, or a kubeconfig of the node.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, anyhow, bail};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use ureq::tls::{Certificate, ClientCert, PemItem, PrivateKey, RootCerts, parse_pem};

/// Where a Pod finds its `ServiceAccount`.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// A server and who we are there.
pub struct Credentials {
    server: String,
    authorities: Vec<Certificate<'static>>,
    certificate: Option<ClientCert>,
    token: TokenSource,
}

enum TokenSource {
    None,
    Text(String),
    /// Read for each request: kubelet renews it.
    File(PathBuf),
}

/// What is sent with a request.
pub(crate) enum Token {
    None,
    Bearer(String),
}

impl Credentials {
    /// Of the Pod this program runs in; none when it runs in none.
    ///
    /// # Errors
    /// When its `ServiceAccount` cannot be read.
    pub fn of_pod(variable: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Option<Self>> {
        let (Some(host), Some(port)) = (variable("KUBERNETES_SERVICE_HOST"), variable("KUBERNETES_SERVICE_PORT"))
        else {
            return Ok(None);
        };
        let folder = Path::new(SERVICE_ACCOUNT);
        let authority = folder.join("ca.crt");
        let pem = fs::read(&authority).with_context(|| format!("could not read {}", authority.display()))?;
        let host = if host.contains(':') { format!("[{host}]") } else { host };
        Ok(Some(Self {
            server: format!("https://{host}:{port}"),
            authorities: certificates(&pem)?,
            certificate: None,
            token: TokenSource::File(folder.join("token")),
        }))
    }

    /// Of the current context of a kubeconfig; files that it names are found by `place`.
    ///
    /// # Errors
    /// When it is not a kubeconfig, or has a way to sign in that this program does not know.
    pub fn of_kubeconfig(path: &Path, place: &dyn Fn(&str) -> anyhow::Result<PathBuf>) -> anyhow::Result<Self> {
        Self::read(path, place).with_context(|| format!("{} is not a kubeconfig that can be used", path.display()))
    }

    fn read(path: &Path, place: &dyn Fn(&str) -> anyhow::Result<PathBuf>) -> anyhow::Result<Self> {
        let config = document(&fs::read(path)?)?;
        let text = |value: &Value, name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
        let named = |list: &str, name: &str, part: &str| -> anyhow::Result<Value> {
            let entries = config.get(list).and_then(Value::as_array).cloned().unwrap_or_default();
            let entry = entries.into_iter().find(|entry| text(entry, "name").as_deref() == Some(name));
            entry.and_then(|entry| entry.get(part).cloned()).with_context(|| format!("{list} has no {name}"))
        };
        let context = text(&config, "current-context").context("it has no current context")?;
        let context = named("contexts", &context, "context")?;
        let cluster = named("clusters", &text(&context, "cluster").context("the context has no cluster")?, "cluster")?;
        let user = named("users", &text(&context, "user").context("the context has no user")?, "user")?;
        let bytes = |value: &Value, name: &str| -> anyhow::Result<Option<Vec<u8>>> {
            if let Some(data) = text(value, &format!("{name}-data")) {
                return Ok(Some(STANDARD.decode(data).with_context(|| format!("{name}-data"))?));
            }
            let Some(file) = text(value, name) else { return Ok(None) };
            let content = fs::read(place(&file)?).with_context(|| format!("could not read {file}"))?;
            Ok(Some(content))
        };
        for unknown in ["exec", "auth-provider", "username"] {
            if user.get(unknown).is_some() {
                bail!("its user signs in by {unknown}: certificates and tokens alone are known");
            }
        }
        let authority =
            bytes(&cluster, "certificate-authority")?.context("the cluster has no certificate authority")?;
        let certificate = match (bytes(&user, "client-certificate")?, bytes(&user, "client-key")?) {
            (Some(chain), Some(key)) => {
                let key = PrivateKey::from_pem(&key).context("client-key")?;
                Some(ClientCert::new_with_certs(&certificates(&chain)?, key))
            }
            (None, None) => None,
            _ => bail!("a client certificate needs its key, and the other way round"),
        };
        let token = match (text(&user, "token"), text(&user, "tokenFile")) {
            (Some(token), _) => TokenSource::Text(token),
            (None, Some(file)) => TokenSource::File(place(&file)?),
            (None, None) => TokenSource::None,
        };
        let server = text(&cluster, "server").context("the cluster has no server")?;
        if !server.starts_with("https://") {
            bail!("{server} is not an address that begins with https://");
        }
        Ok(Self {
            server: server.trim_end_matches('/').to_owned(),
            authorities: certificates(&authority)?,
            certificate,
            token,
        })
    }

    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    pub(crate) fn authorities(&self) -> RootCerts {
        RootCerts::new_with_certs(&self.authorities)
    }

    pub(crate) fn certificate(&self) -> Option<ClientCert> {
        self.certificate.clone()
    }

    pub(crate) fn token(&self) -> anyhow::Result<Token> {
        Ok(match &self.token {
            TokenSource::None => Token::None,
            TokenSource::Text(token) => Token::Bearer(token.clone()),
            TokenSource::File(path) => {
                let token = fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
                Token::Bearer(token.trim().to_owned())
            }
        })
    }
}

/// The one document of a YAML text.
///
/// # Errors
/// When it is not one document.
pub(crate) fn document(bytes: &[u8]) -> anyhow::Result<Value> {
    let limits = yaml::Limits { bytes: 4 << 20, documents: 2, depth: 64, nodes: 200_000 };
    let text = yaml::decode(bytes).map_err(|error| anyhow!(error.message))?;
    let documents = yaml::parse(&text, &limits).map_err(|error| anyhow!("line {}: {}", error.line, error.message))?;
    match documents.as_slice() {
        [document] => Ok(serde_json::from_str(&yaml::json::to_json(&document.root))?),
        _ => bail!("it is not one YAML document"),
    }
}

fn certificates(pem: &[u8]) -> anyhow::Result<Vec<Certificate<'static>>> {
    let mut found = Vec::new();
    for item in parse_pem(pem) {
        if let PemItem::Certificate(certificate) = item.context("it has a certificate that cannot be read")? {
            found.push(certificate);
        }
    }
    if found.is_empty() { bail!("it has no certificate") } else { Ok(found) }
}
