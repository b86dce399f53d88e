//! Machines made here out of network namespaces: a target and a host at the two ends of one shaped cable.
//! Knows nothing of agents, trials or records, and runs no other program: the kernel is asked over netlink.

mod lab;
mod link;
mod privilege;
mod shape;
mod sys;

pub use lab::{
    HOST_IPV4, HOST_IPV6, IPV4_PREFIX, IPV6_PREFIX, LINK_NAME, Lab, LabError, QueueCounts, RECEIVE_QUEUE_NAME,
};
pub use lab::{TARGET_IPV4, TARGET_IPV6};
pub use privilege::{Privilege, enter_user_namespace, privilege};
pub use shape::Shape;
