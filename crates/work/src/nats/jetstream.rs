//! JetStream's API as it is on the wire: requests in JSON, and publishing with an answer (docs.nats.io, "JetStream wire API").
//! Knows no queue. Asked directly, so that the oldest server in use (2.9) is asked nothing that it does not know.

use std::pin::pin;
use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::{Client, HeaderMap, Request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::StreamExt as _;
use futures_util::future::{Either, select};
use serde_json::{Value, json};
use tokio::sync::watch;

/// Why something was not done.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Fault {
    /// No answer, or none in time.
    Silent(String),
    /// The server's refusal: its number, and its words.
    Says(u64, String),
    /// This user may not publish to this subject.
    Forbidden(String),
}

/// Of the server's numbers (nats-server, server/errors.json).
pub(super) const NO_MESSAGE: u64 = 10037;
pub(super) const NO_CONSUMER: u64 = 10014;
pub(super) const NO_STREAM: u64 = 10059;
pub(super) const WRONG_LAST: u64 = 10071;
/// No room: of the server, of an account, of a stream, of its disk.
pub(super) const FULL: [u64; 5] = [10002, 10023, 10028, 10047, 10077];

/// The header by which a message is written only after this one of its subject (ADR-8).
const EXPECTED: &str = "Nats-Expected-Last-Subject-Sequence";
/// What was deleted from a bucket is a message with this header.
const OPERATION: &str = "KV-Operation";

/// A message that is kept.
#[derive(Clone, Debug)]
pub(super) struct StoredMessage {
    pub(super) subject: String,
    pub(super) sequence: u64,
    pub(super) payload: Vec<u8>,
    /// It says that what was there is gone.
    pub(super) is_gone: bool,
}

#[derive(Clone, Debug)]
pub(super) struct JetStream {
    pub(super) client: Client,
    /// What the server said last that it does not do.
    pub(super) refused: watch::Receiver<String>,
    pub(super) patience: Duration,
}

impl JetStream {
    async fn answer(&self, subject: String, request: Request) -> Result<Value, Fault> {
        let silent = |error: &dyn std::fmt::Display| Fault::Silent(error.to_string());
        let octets = request.payload.as_ref().map_or(0, |payload| payload.len());
        let request = request.timeout(Some(self.patience));
        let asked = self.client.send_request(subject.clone(), request);
        let message = self.unless_refused(&subject, asked).await?.map_err(|error| match error.kind() {
            RequestErrorKind::MaxPayloadExceeded => Fault::Says(
                0,
                format!("a message of {octets} bytes is longer than it takes; raise max_payload in its configuration"),
            ),
            _ => silent(&error),
        })?;
        let answer: Value = serde_json::from_slice(&message.payload).map_err(|error| silent(&error))?;
        match answer.get("error") {
            Some(error) => {
                let words = error["description"].as_str().unwrap_or("no reason").to_owned();
                Err(Fault::Says(error["err_code"].as_u64().unwrap_or(0), words))
            }
            None => Ok(answer),
        }
    }

    /// What comes of something that publishes to a subject, unless the server says that this user may not.
    async fn unless_refused<T>(&self, subject: &str, what: impl Future<Output = T>) -> Result<T, Fault> {
        match select(pin!(what), pin!(self.refusal_of(subject))).await {
            Either::Left((came, _)) => Ok(came),
            Either::Right(_) => Err(Fault::Forbidden(subject.to_owned())),
        }
    }

    /// Waits until the server says from now on that this user may not publish to a subject (docs.nats.io, "Client protocol", -ERR).
    async fn refusal_of(&self, subject: &str) {
        let mut refused = self.refused.clone();
        refused.mark_unchanged();
        let quoted = format!("\"{subject}\"");
        loop {
            // Nobody is there to say it any more: the request itself finds out.
            if refused.changed().await.is_err() {
                return std::future::pending().await;
            }
            if refused.borrow_and_update().contains(&quoted) {
                return;
            }
        }
    }

    /// Asks for one of the API's services.
    pub(super) async fn ask(&self, service: &str, what: Value) -> Result<Value, Fault> {
        let request = Request::new().payload(what.to_string().into());
        self.answer(format!("$JS.API.{service}"), request).await
    }

    /// Writes a message where the last of its subject is this one, and waits until it is kept; its number.
    pub(super) async fn write(
        &self,
        subject: String,
        payload: Vec<u8>,
        last: u64,
        is_gone: bool,
    ) -> Result<u64, Fault> {
        let mut headers = HeaderMap::new();
        headers.insert(EXPECTED, last.to_string().as_str());
        if is_gone {
            headers.insert(OPERATION, "DEL");
        }
        let answer = self.answer(subject, Request::new().headers(headers).payload(payload.into())).await?;
        answer["seq"].as_u64().ok_or_else(|| Fault::Silent("an answer without a number".to_owned()))
    }

    /// The last message of a subject.
    pub(super) async fn last(&self, stream: &str, subject: &str) -> Result<Option<StoredMessage>, Fault> {
        let asked = self.ask(&format!("STREAM.MSG.GET.{stream}"), json!({ "last_by_subj": subject })).await;
        let message = match asked {
            Ok(answer) => answer["message"].clone(),
            Err(Fault::Says(NO_MESSAGE, _)) => return Ok(None),
            Err(fault) => return Err(fault),
        };
        let octets = |field: &str| STANDARD.decode(message[field].as_str().unwrap_or_default()).unwrap_or_default();
        let headers = octets("hdrs");
        Ok(Some(StoredMessage {
            subject: subject.to_owned(),
            sequence: message["seq"].as_u64().unwrap_or(0),
            payload: octets("data"),
            is_gone: headers.windows(OPERATION.len()).any(|part| part == OPERATION.as_bytes()),
        }))
    }

    /// The last message of each subject that fits, by a consumer that goes away.
    pub(super) async fn all(&self, stream: &str, filter: &str) -> Result<Vec<StoredMessage>, Fault> {
        let config = json!({
            "deliver_policy": "last_per_subject", "ack_policy": "none", "replay_policy": "instant", "filter_subject": filter,
            "inactive_threshold": 10_000_000_000_u64, "mem_storage": true,
        });
        let made =
            self.ask(&format!("CONSUMER.CREATE.{stream}"), json!({ "stream_name": stream, "config": config })).await?;
        let name = made["name"].as_str().unwrap_or_default().to_owned();
        let mut kept = Vec::new();
        while !self.some(stream, &name, &mut kept).await? {}
        let _ = self.ask(&format!("CONSUMER.DELETE.{stream}.{name}"), json!({})).await;
        Ok(kept)
    }

    /// The next messages of a consumer; whether there are no more.
    async fn some(&self, stream: &str, consumer: &str, kept: &mut Vec<StoredMessage>) -> Result<bool, Fault> {
        const BATCH: usize = 256;
        let silent = |error: &dyn std::fmt::Display| Fault::Silent(error.to_string());
        let inbox = self.client.new_inbox();
        let mut messages = self.client.subscribe(inbox.clone()).await.map_err(|error| silent(&error))?;
        let what = json!({ "batch": BATCH, "no_wait": true }).to_string();
        let next = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
        let batch = async {
            self.client.publish_with_reply(next.clone(), inbox, what.into()).await.map_err(|error| silent(&error))?;
            for _ in 0..BATCH {
                let message = tokio::time::timeout(self.patience, messages.next()).await;
                let Some(message) = message.map_err(|error| silent(&error))? else {
                    return Err(Fault::Silent("the conversation ended".to_owned()));
                };
                // A status is no message: 404, there are no more.
                if message.status.is_some_and(|status| status.as_u16() != 100) {
                    return Ok(true);
                }
                let reply = message.reply.as_ref().map(|reply| reply.to_string()).unwrap_or_default();
                kept.push(StoredMessage {
                    subject: message.subject.to_string(),
                    sequence: numbers(&reply).map_or(0, |(sequence, _)| sequence),
                    payload: message.payload.to_vec(),
                    is_gone: message.headers.is_some_and(|headers| headers.get(OPERATION).is_some()),
                });
            }
            Ok(false)
        };
        self.unless_refused(&next, batch).await?
    }

    /// The subjects of a stream that fit, as they are now.
    pub(super) async fn subjects(&self, stream: &str, filter: &str) -> Result<Vec<String>, Fault> {
        let mut all = Vec::new();
        loop {
            let what = json!({ "subjects_filter": filter, "offset": all.len() });
            let answer = self.ask(&format!("STREAM.INFO.{stream}"), what).await?;
            let Some(page) = answer["state"]["subjects"].as_object().filter(|page| !page.is_empty()) else {
                return Ok(all);
            };
            all.extend(page.keys().cloned());
            if answer["total"].as_u64().is_none_or(|total| all.len() as u64 >= total) {
                return Ok(all);
            }
        }
    }

    /// The next message of a consumer with the subject that acknowledges it; `None`: there is none to be had now.
    pub(super) async fn next(&self, stream: &str, consumer: &str) -> Result<Option<(Vec<u8>, String)>, Fault> {
        let what = json!({ "batch": 1, "no_wait": true }).to_string();
        // A message comes under its own subject, not as an answer to ours: it needs an inbox of its own.
        let request = Request::new().payload(what.into()).timeout(Some(self.patience)).inbox(self.client.new_inbox());
        let subject = format!("$JS.API.CONSUMER.MSG.NEXT.{stream}.{consumer}");
        match self.unless_refused(&subject, self.client.send_request(subject.clone(), request)).await? {
            Ok(message) if message.status.is_none() => {
                Ok(message.reply.map(|reply| (message.payload.to_vec(), reply.to_string())))
            }
            Ok(_) => Ok(None),
            // Of what was delivered too often 2.9 says nothing here, only its advisory; the caller goes on asking.
            Err(error) if error.kind() == async_nats::RequestErrorKind::TimedOut => Ok(None),
            Err(error) => Err(Fault::Silent(error.to_string())),
        }
    }

    /// Acknowledges in one of the ways that there are, and waits until the server has it. A claim that is not there any more is no
    /// error: then nobody answers.
    pub(super) async fn acknowledge(&self, reply: &str, how: &str) -> Result<(), Fault> {
        let request = Request::new().payload(how.to_owned().into()).timeout(Some(self.patience));
        match self.unless_refused(reply, self.client.send_request(reply.to_owned(), request)).await? {
            Ok(_) => Ok(()),
            Err(error) if error.kind() == async_nats::RequestErrorKind::NoResponders => Ok(()),
            Err(error) => Err(Fault::Silent(error.to_string())),
        }
    }
}

/// Of an acknowledging subject: the message's number in its stream, and how often it was delivered (ADR-15):
/// `$JS.ACK.<stream>.<consumer>.<delivered>.<stream sequence>…`, or with a domain and an account before the stream.
pub(super) fn numbers(reply: &str) -> Option<(u64, u32)> {
    let words: Vec<&str> = reply.split('.').collect();
    let at = if words.len() >= 11 { 6 } else { 4 };
    Some((words.get(at + 1)?.parse().ok()?, words.get(at)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledging_subject_says_how_often() {
        assert_eq!(numbers("$JS.ACK.JOBS.X.3.17.1.1700000000.0"), Some((17, 3)));
        assert_eq!(numbers("$JS.ACK.hub.ACC123.JOBS.X.2.9.1.1700000000.0.tok"), Some((9, 2)));
        assert_eq!(numbers(""), None);
    }
}
