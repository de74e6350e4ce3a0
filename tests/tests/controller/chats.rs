//! Announcements in chats: servers on this machine that take what Slack and Teams take, and refuse what these refuse.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use serde_json::{Value, json};
use stepgate_notify::{Notifier, Sinks};

use crate::announced::note;
use crate::fleet::{CLUSTERS, Fleet, is_done};

/// The id of the channel that people call `#ops`.
const CHANNEL: &str = "C024BE91L";

/// What came to the chats.
#[derive(Default)]
struct Chats {
    /// Slack's messages by their times, as they stand now.
    messages: BTreeMap<String, String>,
    edits: usize,
    incoming: Vec<String>,
    cards: Vec<Value>,
    /// What a real server would not have taken.
    refused: Vec<String>,
    is_limited: bool,
}

impl Chats {
    fn answer(&mut self, path: &str, headers: &HeaderMap, body: &[u8]) -> Response {
        let is_json = headers.get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
        let Some(body) = serde_json::from_slice::<Value>(body).ok().filter(|_| is_json) else {
            return self.refuse(path, "invalid_json");
        };
        match path {
            "/api/chat.postMessage" | "/api/chat.update" => {
                // It says how much is too much by the status, and everything else in the body of a success.
                if !std::mem::replace(&mut self.is_limited, true) {
                    return (StatusCode::TOO_MANY_REQUESTS, [("retry-after", "1")], "").into_response();
                }
                match self.slack(path, headers, &body) {
                    Ok(ts) => axum::Json(json!({"ok": true, "channel": CHANNEL, "ts": ts})).into_response(),
                    Err(error) => {
                        self.refused.push(format!("{path}: {error}"));
                        axum::Json(json!({"ok": false, "error": error})).into_response()
                    }
                }
            }
            "/incoming" => match body["text"].as_str().filter(|text| !text.is_empty() && text.len() <= 40_000) {
                Some(text) => {
                    self.incoming.push(text.to_owned());
                    "ok".into_response()
                }
                None => self.refuse(path, "no_text"),
            },
            "/teams" => match card_error(&body) {
                None => {
                    self.cards.push(body);
                    StatusCode::ACCEPTED.into_response()
                }
                Some(error) => self.refuse(path, error),
            },
            _ => self.refuse(path, "no_service"),
        }
    }

    fn slack(&mut self, path: &str, headers: &HeaderMap, body: &Value) -> Result<String, &'static str> {
        if headers.get("authorization").is_none_or(|token| token != "Bearer xoxb-1") {
            return Err("not_authed");
        }
        let text = body["text"].as_str().filter(|text| !text.is_empty()).ok_or("no_text")?.to_owned();
        let channel = body["channel"].as_str().unwrap_or_default();
        if path == "/api/chat.postMessage" {
            // A name is enough to write, and not to edit.
            if ![CHANNEL, "#ops", "ops"].contains(&channel) {
                return Err("channel_not_found");
            }
            let ts = format!("1503435956.{:06}", self.messages.len());
            self.messages.insert(ts.clone(), text);
            return Ok(ts);
        }
        if channel != CHANNEL {
            return Err("channel_not_found");
        }
        let ts = body["ts"].as_str().unwrap_or_default().to_owned();
        *self.messages.get_mut(&ts).ok_or("message_not_found")? = text;
        self.edits += 1;
        Ok(ts)
    }

    fn refuse(&mut self, path: &str, error: &str) -> Response {
        self.refused.push(format!("{path}: {error}"));
        (StatusCode::BAD_REQUEST, error.to_owned()).into_response()
    }
}

/// Why a workflow of Teams would not show a card.
fn card_error(body: &Value) -> Option<&'static str> {
    let attachment = &body["attachments"][0];
    let content = &attachment["content"];
    let known = ["TextBlock", "RichTextBlock", "FactSet"];
    let blocks = content["body"].as_array().cloned().unwrap_or_default();
    match () {
        () if body["type"] != "message" => Some("it is not a message"),
        () if attachment["contentType"] != "application/vnd.microsoft.card.adaptive" => Some("it holds no card"),
        () if !attachment["contentUrl"].is_null() => Some("contentUrl must be null"),
        () if content["type"] != "AdaptiveCard" || content["version"] != "1.4" => Some("not a card of 1.4"),
        () if blocks.is_empty() || blocks.iter().any(|it| !known.iter().any(|kind| it["type"] == *kind)) => {
            Some("an element is not known")
        }
        () if body.to_string().len() > 28 << 10 => Some("it is larger than 28 KB"),
        () => None,
    }
}

#[test]
fn chats_take_what_is_told_and_a_bot_edits_one_message_a_rollout() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let chats: Arc<Mutex<Chats>> = Arc::default();
    let kept = Arc::clone(&chats);
    let router = Router::new().fallback(async move |uri: Uri, headers: HeaderMap, body: Bytes| {
        kept.lock().unwrap().answer(uri.path(), &headers, &body)
    });
    let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    runtime.spawn(async move { axum::serve(listener, router).await });
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("bot.yaml", format!("{{kind: slack, tokenFile: token, channel: '#ops', api: 'http://{address}/api/'}}")),
        ("token", "xoxb-1\n".to_owned()),
        ("hook.yaml", "{kind: slack, addressFile: hook.address}".to_owned()),
        ("hook.address", format!("http://{address}/incoming")),
        ("cards.yaml", "{kind: teams, addressFile: cards.address}".to_owned()),
        ("cards.address", format!("http://{address}/teams")),
    ] {
        std::fs::write(folder.path().join(name), text).unwrap();
    }
    let fleet = Fleet::with_policy(|policy| {
        format!("{policy}\nannounce:\n  routes: [{{to: bot}}, {{to: hook}}, {{to: cards}}]\n")
    });
    let controller = fleet.controller();
    let journal = folder.path().join("announcements.json");
    // A process for each pass: what is to be edited is known from the journal.
    let tell = |pass: &stepgate::reconcile::ReconcileReport| {
        let sinks = Sinks::read(folder.path()).unwrap();
        runtime.block_on(async {
            let mut notifier = Notifier::open(sinks, &journal, Arc::new(|_: &str, _| ())).unwrap();
            note(&fleet, &controller, pass, &mut notifier);
            while notifier.queued() > 0 {
                notifier.deliver().await;
            }
        });
    };
    tell(&fleet.pass(&controller));
    fleet.bump();
    loop {
        let pass = fleet.pass(&controller);
        tell(&pass);
        if is_done(&pass) {
            break;
        }
        fleet.wait(Some(&pass));
    }
    let chats = chats.lock().unwrap();
    assert_eq!(chats.refused, [""; 0]);
    assert_eq!(chats.messages.len(), CLUSTERS.len(), "{:?}", chats.messages);
    assert_eq!(chats.messages.len() + chats.edits, chats.incoming.len());
    assert_eq!(chats.cards.len(), chats.incoming.len());
    for cluster in CLUSTERS {
        let own = chats.messages.values().find(|text| text.contains(cluster)).unwrap();
        // The one message holds all that was told, the newest last.
        let told = chats.incoming.iter().filter(|text| text.contains(cluster)).count();
        assert!(told >= 3 && own.lines().count() >= told, "{told}: {own}");
    }
}
