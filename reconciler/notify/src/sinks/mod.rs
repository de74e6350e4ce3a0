//! What tells announcements: one file a kind.

pub(crate) mod alertmanager;
pub(crate) mod flux;
pub(crate) mod http;
pub(crate) mod mail;
#[cfg(feature = "traces")]
pub(crate) mod otlp;
pub(crate) mod slack;
pub(crate) mod teams;
pub(crate) mod webhook;

use crate::delivery::Delivery;
use crate::message::Message;

/// Who tells announcements.
#[derive(Debug)]
pub(crate) enum Sink {
    Webhook(webhook::Webhook),
    Slack(slack::Slack),
    Teams(teams::Teams),
    Flux(flux::Flux),
    Mail(mail::MailSink),
    #[cfg(feature = "traces")]
    Otlp(otlp::Otlp),
}

impl Sink {
    /// Tells one announcement. `shown` is what an earlier one of the thread was put into, with the lines that stand
    /// there, where the sink edits.
    pub(crate) async fn tell(&self, message: &Message, shown: Option<&Shown>) -> Delivery {
        match self {
            Self::Webhook(sink) => sink.tell(message).await,
            Self::Slack(sink) => sink.tell(message, shown).await,
            Self::Teams(sink) => sink.tell(message).await,
            Self::Flux(sink) => sink.tell(message).await,
            Self::Mail(sink) => sink.tell(message).await,
            #[cfg(feature = "traces")]
            Self::Otlp(sink) => sink.tell(message).await,
        }
    }

    /// Whether it takes spans, and no announcement without any.
    pub(crate) fn takes_spans(&self) -> bool {
        match self {
            Self::Webhook(_) | Self::Slack(_) | Self::Teams(_) | Self::Flux(_) | Self::Mail(_) => false,
            #[cfg(feature = "traces")]
            Self::Otlp(_) => true,
        }
    }
}

/// What a sink shows of a thread.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Shown {
    /// What the sink calls it.
    pub(crate) handle: String,
    /// The titles that stand there, oldest first.
    pub(crate) titles: Vec<String>,
}
