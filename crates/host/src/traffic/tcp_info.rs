//! What TCP itself tells of a connection.
//! Knows `tcp_info`'s fields (include/uapi/linux/tcp.h), and no flow.

use linerate_trial::outcome::{TcpSample, TcpSummary};
use socket2::Socket;

use crate::sys::socket_state::{ECN, Field8, Field32, Field64, SACK, TIMESTAMPS, TcpInfo, WINDOW_SCALING};

/// TCP's own account of a flow that ends now.
pub fn tcp_summary(socket: &Socket, open_s: f64) -> Option<TcpSummary> {
    let info = TcpInfo::of(socket).ok()?;
    let busy_us = info.get64(Field64::BusyTime);
    let share = |limited: Option<u64>| match (limited, busy_us) {
        (Some(limited), Some(busy)) if busy > 0 => Some(limited as f64 / busy as f64),
        _ => None,
    };
    let congestion_control =
        socket.tcp_congestion().ok().map(|name| String::from_utf8_lossy(&name).trim_end_matches('\0').to_owned());
    let has = |option: u8| info.get8(Field8::Options).map(|options| options & option != 0);
    Some(TcpSummary {
        retransmissions: info.get32(Field32::TotalRetrans)?.into(),
        min_rtt_s: info.min_rtt_us().map(|us| f64::from(us) / 1e6),
        rtt_s: info.get32(Field32::Rtt).map(|us| f64::from(us) / 1e6),
        cwnd: info.get32(Field32::SndCwnd),
        mss: info.get32(Field32::SndMss),
        limited_by_receive_window: share(info.get64(Field64::RwndLimited)),
        limited_by_send_buffer: share(info.get64(Field64::SndbufLimited)),
        // Busy is "time with data to send or on its way"; the rest of the connection's time had none.
        limited_by_application: busy_us.filter(|_| open_s > 0.0).map(|us| (1.0 - us as f64 / 1e6 / open_s).max(0.0)),
        reordered_segments: info.get32(Field32::RcvOoopack).map(u64::from),
        segments_sent: info.get32(Field32::DataSegsOut).map(u64::from),
        segments_received: info.get32(Field32::DataSegsIn).map(u64::from),
        congestion_control,
        path_mtu: info.get32(Field32::Pmtu),
        timestamps: has(TIMESTAMPS),
        sack: has(SACK),
        window_scaling: has(WINDOW_SCALING),
        ecn: has(ECN),
        bytes_sent: info.get64(Field64::BytesSent),
        bytes_retransmitted: info.get64(Field64::BytesRetrans),
        segments_lost: None,
        spurious_retransmissions: None,
    })
}

/// TCP's state now.
pub fn tcp_sample(socket: &Socket) -> Option<TcpSample> {
    let info = TcpInfo::of(socket).ok()?;
    Some(TcpSample {
        rtt_us: info.get32(Field32::Rtt)?,
        rttvar_us: info.get32(Field32::Rttvar)?,
        cwnd: info.get32(Field32::SndCwnd)?,
        retransmissions: info.get32(Field32::TotalRetrans)?,
        delivery_rate: info.get64(Field64::DeliveryRate),
        send_window: info.get32(Field32::SndWnd),
        busy_us: info.get64(Field64::BusyTime),
        limited_by_receive_window_us: info.get64(Field64::RwndLimited),
        limited_by_send_buffer_us: info.get64(Field64::SndbufLimited),
    })
}
