//! Microsoft Teams: an Adaptive Card by a workflow. It cannot be edited, and that it arrived is not said.

use std::sync::Arc;

use serde_json::{Value, json};

use super::http::Http;
use crate::delivery::Delivery;
use crate::message::Message;
use crate::plain::bounded;
use crate::settings::Address;

/// A card has at most 28 KB; characters may have four bytes.
const LONGEST: usize = 5000;

#[derive(Debug)]
pub(crate) struct Teams {
    pub(crate) http: Arc<Http>,
    pub(crate) address: Address,
}

impl Teams {
    pub(crate) async fn tell(&self, message: &Message) -> Delivery {
        match self.address.url() {
            Ok(url) => self.http.deliver(self.http.post_json(url, &card(message))).await,
            Err(reason) => Delivery::later(reason),
        }
    }
}

/// Runs of text are shown as they are: a text block would take them for markdown.
fn card(message: &Message) -> Value {
    let color = if message.is_alarming() { "Attention" } else { "Default" };
    let run = |text: &str| json!({"type": "TextRun", "text": text});
    let title = json!({"type": "TextRun", "text": message.title(), "weight": "Bolder", "color": color});
    let mut body = vec![json!({"type": "RichTextBlock", "inlines": [title]})];
    let mut left = LONGEST;
    for line in message.details() {
        let line = bounded(&line, left);
        left = left.saturating_sub(line.chars().count());
        if !line.is_empty() {
            body.push(json!({"type": "RichTextBlock", "inlines": [run(&line)]}));
        }
    }
    json!({
        "type": "message",
        "attachments": [{
            "contentType": "application/vnd.microsoft.card.adaptive",
            "contentUrl": null,
            "content": {
                "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
                "type": "AdaptiveCard",
                "version": "1.4",
                "body": body,
            },
        }],
    })
}
