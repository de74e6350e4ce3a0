//! Slack: one message a rollout that grows, where a bot may edit it; else one message each.

use std::sync::Arc;

use reqwest::Url;
use secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use super::Shown;
use super::http::Http;
use crate::delivery::Delivery;
use crate::message::Message;
use crate::plain::bounded;
use crate::settings::{Address, SecretFile};

/// The most characters of a message.
const LONGEST: usize = 2900;

#[derive(Debug)]
pub(crate) enum SlackWay {
    /// An incoming webhook, which can only add.
    Incoming(Address),
    /// A bot, which can edit.
    Bot { api: Url, token: SecretFile, channel: String },
}

#[derive(Debug)]
pub(crate) struct Slack {
    pub(crate) http: Arc<Http>,
    pub(crate) way: SlackWay,
}

impl Slack {
    pub(crate) async fn tell(&self, message: &Message, shown: Option<&Shown>) -> Delivery {
        match &self.way {
            SlackWay::Incoming(address) => match address.url() {
                Ok(url) => self.http.deliver(self.http.post_json(url, &json!({"text": text(message, &[])}))).await,
                Err(reason) => Delivery::later(reason),
            },
            SlackWay::Bot { api, token, channel } => self.tell_as_bot(message, shown, (api, token, channel)).await,
        }
    }

    async fn tell_as_bot(
        &self,
        message: &Message,
        shown: Option<&Shown>,
        (api, token, channel): (&Url, &SecretFile, &str),
    ) -> Delivery {
        let token = match token.read() {
            Ok(token) => token,
            Err(reason) => return Delivery::later(reason),
        };
        let titles = shown.map_or(&[][..], |shown| shown.titles.as_slice());
        let mut body = json!({"channel": channel, "text": text(message, titles)});
        let call = match shown {
            Some(shown) => {
                if let Some(fields) = body.as_object_mut() {
                    let (channel, ts) = shown.handle.split_once('/').unwrap_or((channel, &shown.handle));
                    fields.insert("channel".to_owned(), channel.into());
                    fields.insert("ts".to_owned(), ts.into());
                }
                "chat.update"
            }
            None => "chat.postMessage",
        };
        let Ok(url) = api.join(call) else { return Delivery::later("its address cannot be extended") };
        let request = self.http.post_json(url, &body).bearer_auth(token.expose_secret());
        let answer = match self.http.ask(request).await {
            Ok(answer) if answer.status.is_success() => answer,
            Ok(answer) => return answer.delivery(),
            Err(reason) => return Delivery::later(reason),
        };
        // A success of HTTP says nothing here.
        let said: Value = serde_json::from_slice(&answer.bytes).unwrap_or_default();
        let field = |name: &str| said.get(name).and_then(Value::as_str);
        match (said.get("ok"), field("ts"), field("error")) {
            // A message is edited by the id of its channel: its name, which is enough to write one, is not.
            (Some(Value::Bool(true)), Some(ts), _) => {
                Delivery::Taken(Some(format!("{}/{ts}", field("channel").unwrap_or(channel))))
            }
            (_, _, Some("message_not_found" | "edit_window_closed" | "cant_update_message")) if shown.is_some() => {
                Box::pin(self.tell(message, None)).await
            }
            (_, _, error) => Delivery::later(format!("it says {}", bounded(error.unwrap_or("nothing"), 100))),
        }
    }
}

/// What was told before, then this.
fn text(message: &Message, titles: &[String]) -> String {
    let mut lines: Vec<String> = titles.iter().map(|title| escaped(title)).collect();
    lines.push(format!("*{}*", escaped(&message.title())));
    lines.extend(message.details().iter().map(|line| escaped(line)));
    // The newest counts most.
    while lines.len() > 1 && lines.iter().map(|line| line.chars().count() + 1).sum::<usize>() > LONGEST {
        lines.remove(0);
    }
    bounded(&lines.join("\n"), LONGEST)
}

/// Text without what Slack takes for mentions, links and markup: `<!channel>` would call everybody.
fn escaped(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    // A sign of no width keeps markup from being one.
    text.chars().flat_map(|sign| if "*_~`".contains(sign) { vec!['\u{200b}', sign] } else { vec![sign] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_called_and_nothing_is_marked_up_by_text_of_others() {
        assert_eq!(escaped("<!channel> & *x*"), "&lt;!channel&gt; &amp; \u{200b}*x\u{200b}*");
    }
}
