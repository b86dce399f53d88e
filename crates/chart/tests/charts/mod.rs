//! Charts as reports have them, for tests and for looking at.

use linerate_chart::{
    Axis, Cell, Chart, Dash, Estimate, Flame, Flow, Frame, Marks, Panel, Point, Range, Reference, Series, Span, Stage,
    Symbol, Table,
};

/// All of them, with their names.
pub fn all() -> Vec<(&'static str, Chart)> {
    vec![
        ("sweep", sweep()),
        ("percentiles", percentiles()),
        ("cpu", cpu()),
        ("slices", slices()),
        ("loss-path", loss_path()),
        ("flame", flame()),
        ("sides", sides()),
        ("sizes", sizes()),
    ]
}

/// A number with its usual text.
fn cell(value: f64) -> Cell {
    Cell::number(format!("{value:.1}"), value)
}

/// Offered load against received, the ideal, and what is lost below.
pub fn sweep() -> Chart {
    let steps: Vec<f64> = (1..=20).map(|step| f64::from(step) * 50.0).collect();
    let received = |offered: f64| if offered < 480.0 { offered } else { 480.0 - (offered - 480.0) * 0.06 };
    let other = |offered: f64| offered.min(890.0);
    let loss = |offered: f64, received: f64| (offered - received) / offered * 100.0;
    let mut table = Table::new(["offered, Mbit/s", "baseline, Mbit/s", "candidate, Mbit/s", "baseline lost, %"]);
    for &at in &steps {
        table = table.row([cell(at), cell(received(at)), cell(other(at)), cell(loss(at, received(at)))]);
    }
    let line = |of: &dyn Fn(f64) -> f64| Marks::line(steps.iter().map(|at| (*at, of(*at))));
    Chart::new(
        "Offered load against throughput, rx",
        "The baseline loses from 480 Mbit/s on; the candidate carries 890 Mbit/s without loss.",
        table,
    )
    .x(Axis::linear("offered load", "Mbit/s").of("UDP payload"))
    .panel(
        Panel::new(Axis::linear("throughput", "Mbit/s").of("UDP payload"))
            .series(Series::new("all that is offered", Marks::Ideal { slope: 1.0 }, 6).dash(Dash::Dotted))
            .series(Series::new("baseline", line(&received), 0))
            .series(Series::new("candidate", line(&other), 1))
            .reference(Reference::X(480.0, "knee: 480 Mbit/s".to_owned()))
            .reference(Reference::Y(957.1, "line rate: 957.1 Mbit/s".to_owned())),
    )
    .panel(
        Panel::new(Axis::linear("lost", "%").of("packets sent"))
            .series(Series::new("baseline", line(&|at| loss(at, received(at))), 0))
            .series(Series::new("candidate", line(&|at| loss(at, other(at))), 1))
            .small(),
    )
}

/// Latency by percentile: repeats as thin lines, of two sides.
pub fn percentiles() -> Chart {
    let percentiles = [0.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9, 99.99, 100.0];
    let delay = |side: usize, repeat: usize, at: f64| {
        let nines = if at < 100.0 { -(1.0 - at / 100.0).log10() } else { 4.6 };
        let base = [62.0, 48.0][side];
        base + (repeat as f64 - 2.0) * 1.5 + nines.powi(2) * [14.0, 6.0][side] * (1.0 + repeat as f64 * 0.05)
    };
    let mut table = Table::new(["percentile", "baseline, µs", "candidate, µs"]);
    for at in percentiles {
        table = table.row([Cell::number(at.to_string(), at), cell(delay(0, 2, at)), cell(delay(1, 2, at))]);
    }
    let mut panel = Panel::new(Axis::log("round trip", "µs"));
    for (side, name) in ["baseline", "candidate"].into_iter().enumerate() {
        for repeat in 0..5 {
            let line = Marks::line(percentiles.map(|at| (at, delay(side, repeat, at))));
            let series = Series::new(name, line, side);
            panel = panel.series(if repeat == 2 { series } else { series.thin() });
        }
    }
    Chart::new(
        "Round trips by percentile, 5 repeats a side",
        "The candidate answers 23 % sooner at the median, and 42 % sooner at 99 %; at the maximum the repeats overlap.",
        table,
    )
    .x(Axis::percentile("percentile of round trips"))
    .panel(panel)
}

/// CPU time a packet, stacked by category, for both ends.
pub fn cpu() -> Chart {
    let categories = ["copy", "checksum", "driver", "IP and UDP", "socket", "scheduler", "interrupts", "other"];
    let of = |end: usize, at: usize| {
        [[1.9, 1.2, 2.3, 1.4, 0.9, 0.6, 0.8, 0.3], [0.5, 0.0, 0.6, 0.5, 0.4, 0.2, 0.2, 0.1]][end][at]
    };
    let mut table = Table::new(["category", "target, µs a packet", "host, µs a packet"]);
    let mut panel = Panel::new(Axis::linear("CPU time", "µs").of("a packet"));
    for (at, name) in categories.into_iter().enumerate() {
        table = table.row([Cell::from(name), cell(of(0, at)), cell(of(1, at))]);
        panel = panel.series(Series::new(name, Marks::bar([(0.0, of(0, at)), (1.0, of(1, at))]), at));
    }
    Chart::new(
        "CPU time a packet by category",
        "The target spends 9.4 µs a packet, a quarter of it in the driver.",
        table,
    )
    .x(Axis::categories("", ["target (i.MX6 FEC)", "host"]))
    .panel(panel)
}

/// Time slices of three figures on one x, with an outage.
pub fn slices() -> Chart {
    let seconds: Vec<f64> = (0..=100).map(|at| f64::from(at) / 10.0).collect();
    let throughput = |at: f64| match at {
        at if (4.2..4.9).contains(&at) => None,
        at if at >= 10.0 => None,
        at => Some(880.0 + 40.0 * (at * 3.0).sin() - if at > 7.0 { 300.0 } else { 0.0 }),
    };
    let table = seconds.iter().step_by(10).fold(Table::new(["at, s", "throughput, Mbit/s"]), |table, at| {
        table.row([cell(*at), throughput(*at).map_or_else(|| Cell::from("- (link down)"), cell)])
    });
    let step =
        |of: &dyn Fn(f64) -> Option<f64>| Marks::Step(seconds.iter().map(|x| Point { x: *x, y: of(*x) }).collect());
    Chart::new(
        "Time slices of 100 ms",
        "The link was down from 4.2 to 4.9 s; from 7 s on another program takes a CPU of the target.",
        table,
    )
    .x(Axis::linear("time since the first data", "s"))
    .panel(
        Panel::new(Axis::linear("throughput", "Mbit/s").of("TCP payload"))
            .series(Series::new("received", step(&throughput), 0))
            .reference(Reference::X(4.2, "carrier lost".to_owned()))
            .reference(Reference::X(4.9, "carrier back".to_owned()))
            .reference(Reference::X(7.0, "stress-ng starts".to_owned())),
    )
    .panel(
        Panel::new(Axis::linear("CPU busy", "%").of("one CPU").range(Range::AtLeast(0.0, 100.0)))
            .series(Series::new("target", step(&|at| throughput(at).map(|_| 70.0 + at * 2.5)), 2))
            .series(Series::new("host", step(&|at| throughput(at).map(|_| 22.0)), 3))
            .small(),
    )
    .panel(
        Panel::new(Axis::linear("retransmitted segments", "").of("a slice"))
            .series(Series::new(
                "retransmitted",
                step(&|at| throughput(at).map(|rate| if rate < 700.0 { 12.0 } else { 0.0 })),
                1,
            ))
            .small(),
    )
}

/// The loss budget as a path: thirteen stages of which two lose.
pub fn loss_path() -> Chart {
    let names = [
        "sender application",
        "sender socket",
        "sender stack",
        "qdisc",
        "driver TX ring",
        "MAC TX",
        "link",
        "MAC RX FIFO",
        "driver RX ring",
        "softirq backlog",
        "receiver stack",
        "receiver socket",
        "receiver application",
    ];
    let mut stages: Vec<Stage> = names.into_iter().map(Stage::new).collect();
    stages[7] = Stage::new(names[7]).branch("lost: FIFO overrun", 51_230.0, "rx_fifo_errors of fec");
    stages[11] = Stage::new(names[11]).branch("lost: socket buffer full", 118_004.0, "UdpRcvbufErrors");
    let mut table = Table::new(["stage", "packets", "counter"]);
    table =
        table.row([Cell::from("MAC RX FIFO"), Cell::number("51,230", 51_230.0), Cell::from("rx_fifo_errors of fec")]);
    table =
        table.row([Cell::from("receiver socket"), Cell::number("118,004", 118_004.0), Cell::from("UdpRcvbufErrors")]);
    table = table.row([Cell::from("unaccounted"), Cell::number("3", 3.0), Cell::from("-")]);
    let flow = Flow {
        unit: "packets".to_owned(),
        entered: 1_000_000.0,
        stages,
        arrived: Some(830_763.0),
        unaccounted: Some(3.0),
    };
    let series = Series::new("rx, 800 Mbit/s offered", Marks::Flow(flow), 0);
    Chart::new(
        "Where packets were lost",
        "Of 1,000,000 packets 169,237 were lost, two thirds of them at the receiver's socket.",
        table,
    )
    .panel(Panel::new(Axis::default()).series(series))
}

/// Where a receiver's CPU time went.
pub fn flame() -> Chart {
    let kinds = ["copy", "driver and interrupt", "protocol", "socket and system call"].map(str::to_owned).to_vec();
    let frames = vec![
        Frame::new(0, "linerate-agent", 620.0),
        Frame::new(1, "start_thread (libc.so.6)", 620.0),
        Frame::new(2, "do_syscall_64", 600.0),
        Frame::new(3, "__sys_recvmmsg", 590.0).kind(3),
        Frame::new(4, "udp_recvmsg", 420.0).kind(2),
        Frame::new(5, "_copy_to_iter", 300.0).kind(0),
        Frame::new(5, "__skb_recv_udp", 80.0).kind(2),
        Frame::new(0, "ksoftirqd/0", 290.0),
        Frame::new(1, "net_rx_action", 290.0).kind(1),
        Frame::new(2, "fec_enet_rx_napi", 280.0).kind(1),
        Frame::new(3, "napi_gro_receive", 12.0),
    ];
    let table = frames.iter().fold(Table::new(["level", "function", "samples", "% of busy time"]), |table, frame| {
        let level = Cell::number(format!("level {}", frame.depth + 1), (frame.depth + 1) as f64);
        table.row([level, Cell::from(frame.name.as_str()), cell(frame.count), cell(frame.count / 9.5)])
    });
    let flame = Flame { unit: "samples".to_owned(), whole: 950.0, kinds, frames };
    Chart::new("Where the target's CPU time went", "Of 950 samples 31.6 % copy to the program's buffer.", table)
        .panel(Panel::new(Axis::default()).series(Series::new("target", Marks::Flame(flame), 0)))
}

/// Before and after: every repeat, and the medians with their intervals.
pub fn sides() -> Chart {
    let repeats = [[412.0, 409.5, 415.2, 411.1, 398.7], [466.3, 471.0, 468.8, 465.1, 470.2]];
    let mut panel = Panel::new(Axis::linear("throughput", "Mbit/s").of("TCP payload").without_zero());
    let mut table = Table::new(["side", "repeat", "throughput, Mbit/s"]);
    let estimates = [(0.0, 398.7, 411.1, 415.2), (1.0, 465.1, 468.8, 471.0)];
    for (side, name) in ["baseline", "candidate"].into_iter().enumerate() {
        let points =
            repeats[side].iter().enumerate().map(|(at, value)| (side as f64 - 0.08 + at as f64 * 0.04, *value));
        panel = panel.series(Series::new(format!("{name}: repeats"), Marks::points(points), side));
        let (x, low, middle, high) = estimates[side];
        let estimate = Estimate { x: x + 0.2, low, middle: Some(middle), high };
        let interval = Series::new(format!("{name}: median, 95 %"), Marks::Interval(vec![estimate]), side);
        panel = panel.series(interval.symbol(Symbol::Diamond));
        for (at, value) in repeats[side].iter().enumerate() {
            table = table.row([Cell::from(name), Cell::number((at + 1).to_string(), (at + 1) as f64), cell(*value)]);
        }
    }
    Chart::new("Before and after", "The candidate is 12 to 16 % faster.", table)
        .x(Axis::categories("", ["baseline: 6.1.55-fec", "candidate: 6.1.55-fec with the RX ring of 512"]))
        .panel(panel)
}

/// A band with its middle, on two logarithmic axes.
pub fn sizes() -> Chart {
    let sizes = [64.0, 128.0, 256.0, 512.0, 1024.0, 1472.0];
    let rate = |size: f64| 940.0 * size / (size + 300.0);
    let spans = sizes.map(|size| Span { x: size, range: Some((rate(size) * 0.85, rate(size) * 1.1)) }).to_vec();
    let table = sizes.iter().fold(Table::new(["payload, bytes", "throughput, Mbit/s"]), |table, size| {
        table.row([cell(*size), cell(rate(*size))])
    });
    Chart::new("Throughput by payload", "Below 300 bytes a packet costs more than its bytes.", table)
        .x(Axis::log("payload", "bytes"))
        .panel(
            Panel::new(Axis::log("throughput", "Mbit/s").of("UDP payload"))
                .series(Series::new("all repeats", Marks::Band(spans), 5))
                .series(Series::new("median", Marks::line(sizes.map(|size| (size, rate(size)))), 0))
                .series(Series::new("500,000 packets/s", Marks::Ideal { slope: 4.0 }, 6).dash(Dash::Dashed)),
        )
}
