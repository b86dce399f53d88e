//! The conversation between controller and agent: messages, framing, transports, authentication, the client.
//! Knows nothing of how traffic is made.
#![forbid(unsafe_code)]

pub mod message;
