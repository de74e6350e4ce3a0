//! Mail: one thread a rollout, by a server that is reached with TLS.

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use lettre::message::header::{ContentType, Header, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters};
use lettre::{AsyncSmtpTransport, AsyncTransport as _, Message as Mail, Tokio1Executor};
use secrecy::ExposeSecret as _;
use serde::Deserialize;

use crate::delivery::Delivery;
use crate::message::Message;
use crate::plain::{bounded, plain};
use crate::settings::SecretFile;

/// How long a server may take for one answer.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Of what a server says about a failure, this many characters are told.
const TOLD: usize = 200;

/// The most characters of a subject.
const LONGEST_SUBJECT: usize = 150;

/// How the connection to the server is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum MailTls {
    /// Plain at first, then TLS or nothing.
    StartTls,
    /// TLS from the start.
    Tls,
    /// Plain: to a server on this machine.
    None,
}

/// What a file says of a mail server.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct WrittenMail {
    server: String,
    #[serde(default = "start_tls")]
    tls: MailTls,
    from: String,
    to: Vec<String>,
    user: Option<String>,
    password_file: Option<PathBuf>,
    ca_file: Option<PathBuf>,
}

fn start_tls() -> MailTls {
    MailTls::StartTls
}

#[derive(Debug)]
pub(crate) struct MailSink {
    host: String,
    port: u16,
    tls: MailTls,
    from: Mailbox,
    to: Vec<Mailbox>,
    login: Option<(String, SecretFile)>,
    authority: Option<PathBuf>,
}

impl MailSink {
    pub(crate) fn of(written: WrittenMail, file: impl Fn(PathBuf) -> PathBuf) -> Result<Self, String> {
        let WrittenMail { server, tls, from, to, user, password_file, ca_file } = written;
        let wrong = || format!("server {server:?} is not a valid host:port, such as smtp.example.com:587");
        let (host, port) = server.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let is_here = host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if tls == MailTls::None && !is_here {
            return Err("mail goes without TLS to a server on this machine only".to_owned());
        }
        let address = |text: &String| {
            text.parse::<Mailbox>().map_err(|error| format!("{text:?} is not a valid address of mail: {error}"))
        };
        let recipients = to.iter().map(address).collect::<Result<Vec<_>, _>>()?;
        if recipients.is_empty() {
            return Err("mail needs somebody to go to".to_owned());
        }
        let login = match (user, password_file) {
            (Some(user), Some(password)) => Some((user, SecretFile::new(file(password)))),
            (None, None) => None,
            _ => return Err("a login needs user and passwordFile".to_owned()),
        };
        let (host, from) = (host.to_owned(), address(&from)?);
        Ok(Self { host, port, tls, from, to: recipients, login, authority: ca_file.map(file) })
    }

    pub(crate) async fn tell(&self, message: &Message) -> Delivery {
        let mail = match self.mail(message) {
            Ok(mail) => mail,
            Err(reason) => return Delivery::Refused(reason),
        };
        let transport = match self.transport() {
            Ok(transport) => transport,
            Err(reason) => return Delivery::later(reason),
        };
        match transport.send(mail).await {
            Ok(_) => Delivery::Taken(None),
            Err(error) => {
                let mut reason = error.to_string();
                let mut source = std::error::Error::source(&error);
                while let Some(cause) = source {
                    reason.push_str(&format!(": {cause}"));
                    source = cause.source();
                }
                let reason = bounded(&plain(&reason), TOLD);
                // A login that is refused is repaired by the operator; a recipient is not.
                if error.is_permanent() && error.status().is_some_and(|code| code.to_string() != "535") {
                    return Delivery::Refused(reason);
                }
                Delivery::later(reason)
            }
        }
    }

    fn mail(&self, message: &Message) -> Result<Mail, String> {
        let thread = identifier(&format!("{}/thread", message.thread()));
        let mut builder: MessageBuilder = Mail::builder()
            .from(self.from.clone())
            .subject(bounded(&message.title(), LONGEST_SUBJECT))
            .message_id(Some(identifier(&message.id())))
            .references(thread.clone())
            .in_reply_to(thread)
            .header(AutoSubmitted);
        for to in &self.to {
            builder = builder.to(to.clone());
        }
        builder.header(ContentType::TEXT_PLAIN).body(message.whole() + "\n").map_err(|error| error.to_string())
    }

    fn transport(&self) -> Result<AsyncSmtpTransport<Tokio1Executor>, String> {
        let mut builder = AsyncSmtpTransport::<Tokio1Executor>::builder_dangerous(&self.host)
            .port(self.port)
            .timeout(Some(TIMEOUT))
            .tls(match self.tls {
                MailTls::StartTls => Tls::Required(self.parameters()?),
                MailTls::Tls => Tls::Wrapper(self.parameters()?),
                MailTls::None => Tls::None,
            });
        if let Some((user, password)) = &self.login {
            let password = password.read()?;
            builder = builder.credentials(Credentials::new(user.clone(), password.expose_secret().to_owned()));
        }
        Ok(builder.build())
    }

    fn parameters(&self) -> Result<TlsParameters, String> {
        let mut parameters = TlsParameters::builder(self.host.clone());
        if let Some(file) = &self.authority {
            let told = |error: String| format!("{}: {error}", file.display());
            let bytes = host::disk::read(file, 1 << 20).map_err(|error| told(error.to_string()))?;
            let certificate = Certificate::from_pem(&bytes).map_err(|error| told(error.to_string()))?;
            parameters = parameters.add_root_certificate(certificate);
        }
        parameters.build_rustls().map_err(|error| error.to_string())
    }
}

/// The same mail has the same identifier, so that whoever keeps mail keeps it once.
fn identifier(name: &str) -> String {
    let plain = |sign: char| if sign.is_ascii_alphanumeric() || "-._".contains(sign) { sign } else { '.' };
    format!("<{}@stepgate.dev>", name.chars().map(plain).collect::<String>())
}

/// No person has written it, and nothing answers it by itself (RFC 3834).
#[derive(Clone, Copy, Debug)]
struct AutoSubmitted;

impl Header for AutoSubmitted {
    fn name() -> HeaderName {
        HeaderName::new_from_ascii_str("Auto-Submitted")
    }

    fn parse(_: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        Ok(Self)
    }

    fn display(&self) -> HeaderValue {
        HeaderValue::new(Self::name(), "auto-generated".to_owned())
    }
}
