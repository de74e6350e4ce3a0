//! Who may read the dashboard, who may act on it, and as whom.
//!
//! Architecture Invariant: all of it is said by the operator, to the process. Nothing in the fleet repository lets anybody in.

mod error;
mod kubernetes;
mod oidc;
mod session;
mod token;

use std::fmt;
use std::net::SocketAddr;
use std::path::Path;

use axum::http::{HeaderMap, HeaderValue, header};
use cluster::kubernetes::{Connection, KnownUser};
use git::Identity;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::reconcile::actions::Verb;
use kubernetes::Reviewer;
use oidc::{KnownPerson, LOGIN, Login, RelyingParty};
use session::{Purpose, SESSION, Sessions, ended};
use token::TokenHolder;

pub use error::AccessError;
pub(super) use error::Refusal;
pub use oidc::OidcSettings;
pub(super) use oidc::{RETURN, Returned};

/// The word for reading, beside those of the verbs.
const VIEW: &str = "view";

/// How people are known, as the operator says.
#[derive(Default)]
pub struct AccessSettings<'a> {
    /// The file of a token.
    pub token: Option<&'a Path>,
    /// Whose token that is.
    pub person: Option<Identity>,
    /// Whether everybody reads.
    pub anonymous: bool,
    /// The file of a key that sessions are sealed with; they end with the process where there is none.
    pub session_key: Option<&'a Path>,
    /// The management cluster that knows people, and the namespace of its `Rollout` objects.
    pub reviewed: Option<(Connection, &'a str)>,
    /// The issuer that knows people.
    pub issuer: Option<OidcSettings>,
}

/// Who may read, and who may act.
pub struct DashboardAccess {
    known: Known,
    sessions: Sessions,
}

/// By what people are known.
#[expect(clippy::large_enum_variant, reason = "one is made for each process")]
enum Known {
    /// Not at all: everybody reads.
    Nobody,
    /// By the operator's token.
    Token(TokenHolder),
    /// By the management cluster.
    Kubernetes(Box<Reviewer>),
    /// By an issuer of identities.
    Issuer(Box<RelyingParty>),
}

/// What is known of whoever sent a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Who {
    /// Nothing.
    Anybody,
    /// They hold the operator's token.
    Holder,
    /// The management cluster knows them.
    Kubernetes(KnownUser),
    /// An issuer knows them.
    Issuer(KnownPerson),
}

/// Whoever sent a request, and may read.
#[derive(Clone, Debug)]
pub(super) struct Reader {
    who: Who,
    /// The session that a browser has shown by itself; none where a program has shown a token.
    session: Option<String>,
}

/// Somebody who acts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Person {
    /// As whom.
    pub(super) identity: Identity,
    /// Where, and who knows them.
    pub(super) place: String,
}

impl fmt::Debug for DashboardAccess {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.known {
            Known::Nobody => "Everybody",
            Known::Token(_) => "Token",
            Known::Kubernetes(_) => "Kubernetes",
            Known::Issuer(_) => "Issuer",
        })
    }
}

impl DashboardAccess {
    /// Who may read at that address: on loopback whoever reaches it, unless people are asked who they are.
    ///
    /// # Errors
    /// [`AccessError`] when a secret cannot be used, or nobody has said who may read at an address that others reach.
    pub fn at(address: SocketAddr, settings: AccessSettings<'_>) -> Result<Self, AccessError> {
        let AccessSettings { token, person, anonymous, session_key, reviewed, issuer } = settings;
        let known = match (issuer, reviewed, token) {
            (Some(issuer), _, _) => Known::Issuer(Box::new(RelyingParty::new(issuer)?)),
            (None, Some((connection, namespace)), _) => {
                Known::Kubernetes(Box::new(Reviewer::new(connection, namespace)))
            }
            (None, None, Some(path)) => Known::Token(TokenHolder::open(path, person)?),
            (None, None, None) if anonymous || address.ip().is_loopback() => Known::Nobody,
            (None, None, None) => return Err(AccessError::Open(address)),
        };
        Ok(Self { known, sessions: Sessions::open(session_key)? })
    }

    /// Whoever sent these headers, where they may read.
    pub(super) async fn reader(&self, headers: &HeaderMap, now: Timestamp) -> Result<Reader, Refusal> {
        let reader = self.known(headers, now).await?;
        if self.may_do(&reader, VIEW, None).await? {
            return Ok(reader);
        }
        Err(Refusal::Denied(format!("you may not {VIEW} rollouts.stepgate.dev")))
    }

    async fn known(&self, headers: &HeaderMap, now: Timestamp) -> Result<Reader, Refusal> {
        if let Known::Nobody = self.known {
            return Ok(Reader { who: Who::Anybody, session: None });
        }
        if let Some(token) = bearer(headers) {
            return Ok(Reader { who: self.shows(token).await?, session: None });
        }
        let open = cookies(headers, Purpose::Session).find_map(|session| {
            let who = self.sessions.unseal::<Who>(Purpose::Session, session, now).filter(|who| self.is_of(who))?;
            Some(Reader { who, session: Some(session.to_owned()) })
        });
        open.ok_or(Refusal::Unknown)
    }

    /// Whether somebody is known in the way in which people are known now: a key outlasts what the operator says.
    const fn is_of(&self, who: &Who) -> bool {
        matches!(
            (&self.known, who),
            (Known::Token(_), Who::Holder)
                | (Known::Kubernetes(_), Who::Kubernetes(_))
                | (Known::Issuer(_), Who::Issuer(_))
        )
    }

    /// Who shows this token.
    async fn shows(&self, token: &str) -> Result<Who, Refusal> {
        match &self.known {
            Known::Token(holder) if holder.is_token(token) => Ok(Who::Holder),
            Known::Kubernetes(reviewer) => Ok(Who::Kubernetes(reviewer.user(token.trim()).await?)),
            Known::Token(_) | Known::Issuer(_) | Known::Nobody => Err(Refusal::Unknown),
        }
    }

    /// The cookie of a session for whoever shows this token.
    pub(super) async fn log_in(&self, token: &str, now: Timestamp) -> Result<HeaderValue, Refusal> {
        let who = self.shows(token).await?;
        let too_long = || Refusal::Denied("you are in too many groups for a session: show the token itself".to_owned());
        self.sessions.seal(Purpose::Session, &who, now, SESSION).ok_or_else(too_long)
    }

    /// Where to send somebody who logs in over the issuer, and the cookie that their browser brings back.
    pub(super) async fn begin_login(&self, now: Timestamp) -> Result<(String, HeaderValue), Refusal> {
        let Known::Issuer(party) = &self.known else { return Err(Refusal::Unknown) };
        let (address, login) = party.begin(&self.sessions).await?;
        let cookie = self.sessions.seal(Purpose::Login, &login, now, LOGIN).ok_or(Refusal::Unasked)?;
        Ok((address, cookie))
    }

    /// The cookie of a session for whoever comes back from the issuer.
    pub(super) async fn end_login(
        &self,
        headers: &HeaderMap,
        returned: &Returned,
        now: Timestamp,
    ) -> Result<HeaderValue, Refusal> {
        let Known::Issuer(party) = &self.known else { return Err(Refusal::Unknown) };
        let mut begun = cookies(headers, Purpose::Login);
        let begun = begun.find_map(|cookie| self.sessions.unseal::<Login>(Purpose::Login, cookie, now));
        let begun = begun.ok_or_else(|| Refusal::Denied("this browser began no login, or long ago".to_owned()))?;
        let who = Who::Issuer(party.end(&begun, returned, now).await?);
        self.sessions.seal(Purpose::Session, &who, now, SESSION).ok_or(Refusal::Unasked)
    }

    /// Whether people log in over an issuer.
    pub(super) const fn has_issuer(&self) -> bool {
        matches!(self.known, Known::Issuer(_))
    }

    /// Whether somebody may do this to a cluster.
    pub(super) async fn may(&self, reader: &Reader, verb: Verb, cluster: &str) -> Result<bool, Refusal> {
        self.may_do(reader, verb.word(), Some(cluster)).await
    }

    async fn may_do(&self, reader: &Reader, verb: &str, cluster: Option<&str>) -> Result<bool, Refusal> {
        match (&self.known, &reader.who) {
            (Known::Nobody, _) => Ok(verb == VIEW),
            (Known::Token(holder), Who::Holder) => Ok(verb == VIEW || holder.person.is_some()),
            (Known::Kubernetes(reviewer), Who::Kubernetes(user)) => reviewer.may(user, verb, cluster).await,
            (Known::Issuer(_), Who::Issuer(person)) => Ok(verb == VIEW || person.verbs.iter().any(|may| may == verb)),
            (Known::Token(_) | Known::Kubernetes(_) | Known::Issuer(_), _) => Ok(false),
        }
    }

    /// As whom somebody acts; none where nobody knows who they are.
    pub(super) fn person(&self, reader: &Reader) -> Option<Person> {
        match (&self.known, &reader.who) {
            (Known::Token(holder), Who::Holder) => {
                let identity = holder.person.clone()?;
                Some(Person { identity, place: "dashboard, by the operator's token".to_owned() })
            }
            (Known::Kubernetes(_), Who::Kubernetes(user)) => {
                let identity = identity_of(&user.username)?;
                Some(Person { identity, place: format!("dashboard, known by Kubernetes as {}", user.username) })
            }
            (Known::Issuer(_), Who::Issuer(person)) => {
                let identity = person.author.as_deref()?.parse().ok()?;
                let place = format!("dashboard, known by {} as {}", person.issuer, person.subject);
                Some(Person { identity, place })
            }
            (Known::Nobody | Known::Token(_) | Known::Kubernetes(_) | Known::Issuer(_), _) => None,
        }
    }

    /// What a form of this reader has to bear; nothing where a program shows its token each time.
    pub(super) fn form(&self, reader: &Reader) -> Option<String> {
        reader.session.as_deref().map(|session| self.sessions.form(session))
    }

    /// Whether a form comes from a page that this reader was given.
    pub(super) fn is_form(&self, reader: &Reader, mark: &str) -> bool {
        match &reader.session {
            Some(session) => self.sessions.is_form(session, mark),
            // No browser shows such a header by itself.
            None => !matches!(reader.who, Who::Anybody),
        }
    }

    /// What people are asked for at the login, in words; none where nobody is asked.
    pub(super) const fn asks_for(&self) -> Option<&'static str> {
        match self.known {
            Known::Nobody | Known::Issuer(_) => None,
            Known::Token(_) => Some("The token is in the file that --web-token-file names."),
            Known::Kubernetes(_) => {
                Some("A token for the audience stepgate: kubectl create token NAME --audience stepgate --duration 10m")
            }
        }
    }
}

/// The cookie that ends a session.
pub(super) fn log_out() -> HeaderValue {
    ended(Purpose::Session)
}

/// The cookie that ends a login that was on its way: nobody comes back from it twice.
pub(super) fn login_over() -> HeaderValue {
    ended(Purpose::Login)
}

/// The author that a user of Kubernetes is. One without an address of its own has one that is no host's.
fn identity_of(username: &str) -> Option<Identity> {
    let has_address = username.split('@').count() == 2 && !username.contains(char::is_whitespace);
    let address = if has_address { username.to_owned() } else { format!("{username}@kubernetes") };
    format!("{username} <{address}>").parse().ok()
}

/// The token of `Authorization: Bearer`, where there is exactly one.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().filter(|_| values.next().is_none())?.to_str().ok()?;
    value.strip_prefix("Bearer ").map(str::trim).filter(|token| !token.is_empty())
}

fn cookies(headers: &HeaderMap, purpose: Purpose) -> impl Iterator<Item = &str> {
    let values = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let pairs = values.flat_map(|value| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(name, _)| *name == purpose.cookie()).map(|(_, value)| value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    fn access(person: Option<&str>) -> DashboardAccess {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
        let person = person.map(|person| person.parse().unwrap());
        let settings = AccessSettings { token: Some(&file), person, anonymous: true, ..AccessSettings::default() };
        DashboardAccess::at("127.0.0.1:80".parse().unwrap(), settings).unwrap()
    }

    fn with(name: header::HeaderName, value: &str) -> HeaderMap {
        [(name, value.parse().unwrap())].into_iter().collect()
    }

    async fn session(access: &DashboardAccess, now: Timestamp) -> String {
        let cookie = access.log_in(TOKEN, now).await.unwrap();
        cookie.to_str().unwrap().split(';').next().unwrap().to_owned()
    }

    #[tokio::test]
    async fn a_session_is_open_for_whoever_showed_the_token_until_it_ends() {
        let (access, now) = (access(None), "2026-11-25T12:00:00Z".parse::<Timestamp>().unwrap());
        assert_eq!(access.log_in("another token of the same length", now).await, Err(Refusal::Unknown));
        let cookie = with(header::COOKIE, &session(&access, now).await);
        let hour = |hours: i64| now.checked_add(jiff::SignedDuration::from_hours(hours)).unwrap();
        assert!(access.reader(&cookie, hour(7)).await.is_ok());
        assert!(access.reader(&cookie, hour(8)).await.is_err());
        assert!(self::access(None).reader(&cookie, now).await.is_err(), "of another process");
    }

    #[tokio::test]
    async fn programs_show_the_token_itself() {
        let (access, now) = (access(None), Timestamp::UNIX_EPOCH);
        assert!(access.reader(&with(header::AUTHORIZATION, &format!("Bearer {TOKEN}")), now).await.is_ok());
        for wrong in ["Bearer ", "Bearer x", TOKEN, "Basic YTpi"] {
            assert!(access.reader(&with(header::AUTHORIZATION, wrong), now).await.is_err(), "{wrong}");
        }
        assert!(access.reader(&HeaderMap::new(), now).await.is_err());
    }

    #[tokio::test]
    async fn a_token_acts_as_the_person_whose_it_is_and_else_only_reads() {
        let now = Timestamp::UNIX_EPOCH;
        let shown = with(header::AUTHORIZATION, &format!("Bearer {TOKEN}"));
        for (person, acts) in [(None, false), (Some("Alice <alice@example.com>"), true)] {
            let access = access(person);
            let reader = access.reader(&shown, now).await.unwrap();
            assert_eq!(access.may(&reader, Verb::Approve, "mgmt").await, Ok(acts));
            assert_eq!(access.person(&reader).map(|it| it.identity.to_string()).as_deref(), person);
        }
    }

    #[tokio::test]
    async fn a_form_counts_in_the_session_that_was_given_it() {
        let (access, now) = (access(Some("Alice <alice@example.com>")), Timestamp::UNIX_EPOCH);
        let (one, two) = (session(&access, now).await, session(&access, now).await);
        let one = access.reader(&with(header::COOKIE, &one), now).await.unwrap();
        let two = access.reader(&with(header::COOKIE, &two), now).await.unwrap();
        let mark = access.form(&one).unwrap();
        assert!(access.is_form(&one, &mark) && !access.is_form(&two, &mark) && !access.is_form(&one, ""));
    }

    #[test]
    fn an_address_that_others_reach_needs_somebody_to_say_who_may_read() {
        let at = |address: &str, settings| DashboardAccess::at(address.parse().unwrap(), settings);
        let open = |anonymous| AccessSettings { anonymous, ..AccessSettings::default() };
        assert!(matches!(at("192.0.2.1:80", open(false)), Err(AccessError::Open(_))));
        assert!(at("192.0.2.1:80", open(true)).is_ok() && at("127.0.0.1:80", open(false)).is_ok());
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("token");
        std::fs::write(&file, "short\n").unwrap();
        let token = |file| AccessSettings { token: Some(file), ..AccessSettings::default() };
        assert!(matches!(at("127.0.0.1:80", token(&file)), Err(AccessError::Short(_))));
    }

    #[test]
    fn users_of_kubernetes_are_authors_with_an_address() {
        for (username, expected) in [
            ("alice@example.com", Some("alice@example.com <alice@example.com>")),
            (
                "system:serviceaccount:ops:bot",
                Some("system:serviceaccount:ops:bot <system:serviceaccount:ops:bot@kubernetes>"),
            ),
            ("a@b@c", Some("a@b@c <a@b@c@kubernetes>")),
            ("mallory <alice@example.com>", None),
            ("mallory\nalice", None),
        ] {
            assert_eq!(identity_of(username).map(|it| it.to_string()).as_deref(), expected, "{username:?}");
        }
    }
}
