//! What a registry asks for: `WWW-Authenticate`.

use http_auth::ChallengeParser;
use reqwest::header::{HeaderMap, WWW_AUTHENTICATE};

/// The challenge that is answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Challenge {
    /// A token of a token server.
    Bearer {
        /// The address of the token server.
        realm: String,
        service: Option<String>,
        scope: Option<String>,
    },
    /// Name and password.
    Basic,
}

impl Challenge {
    /// The best challenge of an answer: a token before a password.
    pub fn of(headers: &HeaderMap) -> Result<Self, String> {
        let values = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
        let mut basic = None;
        for challenge in values.flat_map(ChallengeParser::new).map_while(Result::ok) {
            let parameter = |name: &str| {
                let found = challenge.params.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
                found.map(|(_, value)| value.to_unescaped())
            };
            if challenge.scheme.eq_ignore_ascii_case("Bearer")
                && let Some(realm) = parameter("realm")
            {
                return Ok(Self::Bearer { realm, service: parameter("service"), scope: parameter("scope") });
            }
            if challenge.scheme.eq_ignore_ascii_case("Basic") {
                basic = Some(Self::Basic);
            }
        }
        basic.ok_or_else(|| "the registry asks for a login of a kind that is not known here".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Result<Challenge, String> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, value.parse().unwrap());
        }
        Challenge::of(&headers)
    }

    #[test]
    fn a_token_is_preferred_to_a_password() {
        let bearer = |service: Option<&str>, scope: Option<&str>| {
            let text = |text: Option<&str>| text.map(str::to_owned);
            Challenge::Bearer { realm: "https://a.example/t".to_owned(), service: text(service), scope: text(scope) }
        };
        let full = "Bearer realm=\"https://a.example/t\",service=\"a.example\",scope=\"repository:x:pull\"";
        for (values, expected) in [
            (&[full][..], Ok(bearer(Some("a.example"), Some("repository:x:pull")))),
            (&["bearer Realm=\"https://a.example/t\""], Ok(bearer(None, None))),
            (&["Basic realm=\"a\"", full], Ok(bearer(Some("a.example"), Some("repository:x:pull")))),
            (&["Basic realm=\"a\", Bearer realm=\"https://a.example/t\""], Ok(bearer(None, None))),
            (&["Basic realm=\"a\""], Ok(Challenge::Basic)),
            (&["Bearer service=\"a\"", "Basic realm=\"a\""], Ok(Challenge::Basic)),
        ] {
            assert_eq!(of(values), expected, "{values:?}");
        }
        for values in [&[][..], &["Negotiate"], &["\u{1}"], &["Bearer"]] {
            // A header value with a control character cannot be made; everything else is refused.
            if values.iter().all(|value| !value.contains('\u{1}')) {
                assert!(of(values).is_err(), "{values:?}");
            }
        }
    }
}
