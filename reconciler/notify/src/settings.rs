//! The operator's folder of sinks: a file a sink, and the files with secrets that these name.

use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use reqwest::Url;
use secrecy::SecretString;
use serde::Deserialize;

use crate::error::NotifyError;
use crate::sinks::Sink;
use crate::sinks::alertmanager::Alertmanager;
use crate::sinks::flux::Flux;
use crate::sinks::http::Http;
use crate::sinks::mail::{MailSink, WrittenMail};
#[cfg(feature = "traces")]
use crate::sinks::otlp::Otlp;
use crate::sinks::slack::{Slack, SlackWay};
use crate::sinks::teams::Teams;
use crate::sinks::webhook::Webhook;

/// The largest file of a sink, and of a secret, in bytes.
const LARGEST: u64 = 64 << 10;

/// The name of a sink, as `stepgate.yaml` has it: that of its file without the end.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SinkName(String);

impl SinkName {
    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SinkName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// What a file says of a sink.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase", deny_unknown_fields)]
enum Written {
    Webhook {
        address: Option<String>,
        address_file: Option<PathBuf>,
        secret_file: PathBuf,
    },
    Slack {
        address_file: Option<PathBuf>,
        token_file: Option<PathBuf>,
        channel: Option<String>,
        api: Option<String>,
    },
    Teams {
        address_file: PathBuf,
    },
    Flux {
        address: String,
    },
    Alertmanager {
        address: String,
        token_file: Option<PathBuf>,
        #[serde(default = "cluster")]
        label: String,
        stages: BTreeMap<String, Vec<String>>,
    },
    Mail(WrittenMail),
    Otlp {
        address: String,
        headers_file: Option<PathBuf>,
    },
}

fn cluster() -> String {
    "cluster".to_owned()
}

/// The sinks of an operator.
#[derive(Clone, Debug, Default)]
pub struct Sinks {
    sinks: BTreeMap<String, Arc<Sink>>,
    silencers: BTreeMap<String, Arc<Alertmanager>>,
}

impl Sinks {
    /// Reads every `NAME.yaml` of a folder. Secrets are read whenever they are used, so that they can be replaced.
    ///
    /// # Errors
    /// The first file that does not say what its sink needs.
    pub fn read(folder: &Path) -> Result<Self, NotifyError> {
        let http = Arc::new(Http::new()?);
        let (mut sinks, mut silencers) = (BTreeMap::new(), BTreeMap::new());
        for entry in std::fs::read_dir(folder).map_err(NotifyError::read(folder))? {
            let file = entry.map_err(NotifyError::read(folder))?.path();
            // Secrets that Kubernetes mounts are links to files.
            let is_sink = file.extension().is_some_and(|end| end == "yaml");
            let Some(name) = file.file_stem().and_then(|name| name.to_str()).filter(|_| is_sink) else { continue };
            let wrong = |message: String| NotifyError::Sink { file: file.clone(), message };
            if !policy::is_mirror_name(name) {
                return Err(wrong("its name is not a valid name of a sink: small letters, digits and -".to_owned()));
            }
            let text = host::disk::read_text(&file, LARGEST).map_err(NotifyError::read(&file))?;
            let written: Written = serde_yaml::from_str(&text).map_err(|error| wrong(error.to_string()))?;
            match sink(folder, written, &http).map_err(wrong)? {
                Read::Sink(sink) => drop(sinks.insert(name.to_owned(), Arc::new(sink))),
                Read::Silencer(silencer) => drop(silencers.insert(name.to_owned(), Arc::new(silencer))),
            }
        }
        Ok(Self { sinks, silencers })
    }

    /// The sink of this name.
    pub(crate) fn get(&self, name: &str) -> Option<&Arc<Sink>> {
        self.sinks.get(name)
    }

    /// The names of those that take spans.
    pub(crate) fn traced(&self) -> impl Iterator<Item = &str> {
        self.sinks.iter().filter(|(_, sink)| sink.takes_spans()).map(|(name, _)| name.as_str())
    }

    /// Those that silence alerts, by name.
    pub(crate) fn silencers(&self) -> impl Iterator<Item = (&str, &Arc<Alertmanager>)> {
        self.silencers.iter().map(|(name, silencer)| (name.as_str(), silencer))
    }

    /// The names of those that tell announcements.
    pub fn names(&self) -> impl Iterator<Item = SinkName> {
        self.sinks.keys().cloned().map(SinkName)
    }
}

/// What a file stands for.
enum Read {
    Sink(Sink),
    Silencer(Alertmanager),
}

fn sink(folder: &Path, written: Written, http: &Arc<Http>) -> Result<Read, String> {
    let secret = |file: PathBuf| SecretFile::new(folder.join(file));
    Ok(Read::Sink(match written {
        Written::Alertmanager { address, token_file, label, stages } => {
            let silencer = silencer(&address, token_file.map(secret), (label, stages), http)?;
            return Ok(Read::Silencer(silencer));
        }
        Written::Webhook { address, address_file, secret_file } => {
            let address = match (address, address_file) {
                (Some(address), None) => Address::Plain(secure(&address)?),
                (None, Some(file)) => Address::Secret(secret(file)),
                _ => return Err("a webhook needs either address or addressFile".to_owned()),
            };
            Sink::Webhook(Webhook { http: Arc::clone(http), address, secret: secret(secret_file) })
        }
        Written::Slack { address_file, token_file, channel, api } => {
            let way = match (address_file, token_file, channel) {
                (Some(file), None, None) => SlackWay::Incoming(Address::Secret(secret(file))),
                (None, Some(file), Some(channel)) => {
                    let api = secure(api.as_deref().unwrap_or("https://slack.com/api/"))?;
                    SlackWay::Bot { api, token: secret(file), channel }
                }
                _ => return Err("slack needs either addressFile, or tokenFile and channel".to_owned()),
            };
            Sink::Slack(Slack { http: Arc::clone(http), way })
        }
        Written::Teams { address_file } => {
            Sink::Teams(Teams { http: Arc::clone(http), address: Address::Secret(secret(address_file)) })
        }
        Written::Mail(written) => Sink::Mail(MailSink::of(written, |file| folder.join(file))?),
        #[cfg(feature = "traces")]
        Written::Otlp { address, headers_file } => {
            // Collectors inside of a cluster have neither; headers are sent to nobody without TLS.
            let address = if headers_file.is_some() { secure(&address)? } else { parsed(&address)? };
            Sink::Otlp(Otlp { http: Arc::clone(http), address, headers: headers_file.map(secret) })
        }
        #[cfg(not(feature = "traces"))]
        Written::Otlp { address, headers_file } => {
            let _ = (address, headers_file);
            return Err("this program was built without the feature `traces`".to_owned());
        }
        // Flux serves it inside of the cluster alone, and without TLS.
        Written::Flux { address } => Sink::Flux(Flux { http: Arc::clone(http), address: parsed(&address)? }),
    }))
}

/// An Alertmanager with the alerts that are silenced there. Each is named: a pattern could silence what nobody meant.
fn silencer(
    address: &str,
    token: Option<SecretFile>,
    (label, stages): (String, BTreeMap<String, Vec<String>>),
    http: &Arc<Http>,
) -> Result<Alertmanager, String> {
    let is_name = |text: &str| {
        let inside = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
        !text.is_empty() && text.chars().all(inside) && !text.starts_with(|sign: char| sign.is_ascii_digit())
    };
    if !is_name(&label) {
        return Err(format!("label {label:?} is not a valid name of a label"));
    }
    for (stage, alerts) in &stages {
        let is_group = stage == "workers";
        if !is_group && stage.parse::<rollout::StageName>().is_err() {
            return Err(format!("{stage:?} is not a valid stage"));
        }
        if let Some(alert) = alerts.iter().find(|alert| !is_name(alert)) {
            return Err(format!("{alert:?} is not a valid name of an alert: patterns are not taken"));
        }
    }
    if stages.values().all(Vec::is_empty) {
        return Err("no alert is named below stages, so nothing is silenced".to_owned());
    }
    // Most have no login and no TLS inside of a cluster; a token is sent to nobody without it.
    let address = if token.is_some() { secure(address)? } else { parsed(address)? };
    Ok(Alertmanager { http: Arc::clone(http), address, token, label, stages })
}

/// Where a sink is: some addresses are secrets themselves.
#[derive(Clone, Debug)]
pub(crate) enum Address {
    Plain(Url),
    Secret(SecretFile),
}

impl Address {
    /// The address.
    pub(crate) fn url(&self) -> Result<Url, String> {
        use secrecy::ExposeSecret as _;
        match self {
            Self::Plain(url) => Ok(url.clone()),
            // Nothing of it is told: it is a secret.
            Self::Secret(file) => secure(file.read()?.expose_secret())
                .map_err(|_| format!("{} holds no address that begins with https://", file.file.display())),
        }
    }
}

/// A file with a secret, which is read whenever it is used.
#[derive(Clone, Debug)]
pub(crate) struct SecretFile {
    file: PathBuf,
}

impl SecretFile {
    pub(crate) fn new(file: PathBuf) -> Self {
        Self { file }
    }

    pub(crate) fn read(&self) -> Result<SecretString, String> {
        let text = host::disk::read_text(&self.file, LARGEST)
            .map_err(|error| format!("{} cannot be read: {error}", self.file.display()))?;
        let text = text.trim();
        if text.is_empty() {
            return Err(format!("{} is empty", self.file.display()));
        }
        Ok(SecretString::from(text))
    }
}

fn parsed(address: &str) -> Result<Url, String> {
    let url: Url = address.trim().parse().map_err(|error| format!("{address:?} is not a valid address: {error}"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err("an address holds no user and no password".to_owned());
    }
    Ok(url)
}

/// An address that secrets may be sent to: TLS, or this very machine.
fn secure(address: &str) -> Result<Url, String> {
    let url = parsed(address)?;
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_here => Ok(url),
        _ => Err(format!("the address of {host} must begin with https://")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(files: &[(&str, &str)]) -> Result<Sinks, NotifyError> {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in files {
            std::fs::write(folder.path().join(name), text).unwrap();
        }
        Sinks::read(folder.path())
    }

    #[test]
    fn a_folder_holds_a_sink_in_each_file() {
        let sinks = read(&[
            ("ops.yaml", "kind: webhook\naddress: https://hooks.example.com/x\nsecretFile: ops.secret\n"),
            ("ops.secret", "hush"),
            ("chat.yaml", "{kind: slack, tokenFile: token, channel: C1}"),
            ("team.yaml", "{kind: teams, addressFile: team.address}"),
            ("mail.yaml", "{kind: mail, server: 'smtp.example.com:587', from: s@example.com, to: [o@example.com]}"),
            ("spans.yaml", "{kind: otlp, address: 'http://collector.observability:4318/v1/traces'}"),
            ("flux.yaml", "{kind: flux, address: http://notification-controller.flux-system.svc.cluster.local./}"),
        ]);
        let names: Vec<String> = sinks.unwrap().names().map(|name| name.to_string()).collect();
        assert_eq!(names, ["chat", "flux", "mail", "ops", "spans", "team"]);
    }

    #[test]
    fn what_a_sink_lacks_or_gives_away_is_told_with_its_file() {
        for (text, wanted) in [
            ("kind: pager\n", "unknown variant `pager`"),
            ("kind: webhook\naddress: http://hooks.example.com\nsecretFile: s\n", "must begin with https://"),
            ("kind: webhook\naddress: https://u:p@hooks.example.com\nsecretFile: s\n", "no user and no password"),
            ("kind: webhook\nsecretFile: s\n", "needs either address or addressFile"),
            ("kind: webhook\naddress: https://h\n", "missing field `secretFile`"),
            ("kind: slack\ntokenFile: t\n", "tokenFile and channel"),
            ("{kind: mail, server: smtp, from: a@b.c, to: [d@e.f]}", "not a valid host:port"),
            ("{kind: mail, server: 'h:25', tls: none, from: a@b.c, to: [d@e.f]}", "on this machine only"),
            ("{kind: mail, server: 'h:25', from: a@b.c, to: []}", "somebody to go to"),
            ("{kind: mail, server: 'h:25', from: a@b.c, to: [d@e.f], user: u}", "needs user and passwordFile"),
            ("{kind: alertmanager, address: 'http://a:9093', stages: {workers: ['.*']}}", "patterns are not taken"),
            ("{kind: alertmanager, address: 'http://a:9093', stages: {workers: []}}", "nothing is silenced"),
            ("{kind: alertmanager, address: 'http://a:9093', stages: {nodes: [A]}}", "is not a valid stage"),
            ("{kind: alertmanager, address: 'http://a:9093', tokenFile: t, stages: {workers: [A]}}", "https://"),
            ("{kind: otlp, address: 'http://h:4318/v1/traces', headersFile: h}", "must begin with https://"),
            ("kind: teams\naddress: https://h\n", "unknown field `address`"),
        ] {
            let error = read(&[("ops.yaml", text)]).unwrap_err().to_string();
            assert!(error.contains("ops.yaml") && error.contains(wanted), "{text}: {error}");
        }
    }
}
