//! What every renderer must hold: all series and values are there, labels are apart, strangers' names do nothing, and no
//! value makes one panic.

mod charts;

use linerate_chart::{
    Axis, Branch, Cell, Chart, Dash, Estimate, Flame, Flow, Frame, Marks, Panel, Point, Range, Reference, Series, Span,
    Stage, Symbol, Table, svg, terminal,
};
use proptest::prelude::*;
use roxmltree::{Document, Node};

/// An estimate of the width of a text, apart from the renderer's own: from below, as a slim sans serif has it.
fn width(node: Node<'_, '_>) -> f64 {
    let slim = |c: char| " iljtfrI.,:;'|()[]!/\\-`\"".contains(c);
    let words = node.text().unwrap_or_default();
    number(node, "font-size") * words.chars().map(|c| if slim(c) { 0.25 } else { 0.55 }).sum::<f64>()
}

fn number(node: Node<'_, '_>, name: &str) -> f64 {
    node.attribute(name).and_then(|text| text.parse().ok()).unwrap_or_else(|| panic!("{name} of {node:?}"))
}

fn texts<'a>(document: &'a Document<'a>) -> impl Iterator<Item = Node<'a, 'a>> {
    document.descendants().filter(|node| node.has_tag_name("text"))
}

/// Left, top, right, bottom.
fn box_of(node: Node<'_, '_>) -> [f64; 4] {
    let (x, y, size, width) = (number(node, "x"), number(node, "y"), number(node, "font-size"), width(node));
    let left = match node.attribute("text-anchor") {
        Some("middle") => x - width / 2.0,
        Some("end") => x - width,
        _ => x,
    };
    [left, y - 0.76 * size, left + width, y + 0.2 * size]
}

/// Holds a picture against the rules of all pictures.
#[track_caller]
fn check(picture: &str) {
    let document = Document::parse(picture).unwrap_or_else(|error| panic!("{error}\n{picture}"));
    let root = document.root_element();
    assert_eq!(root.attribute("role"), Some("img"));
    let (width, height) = (number(root, "width"), number(root, "height"));
    let elements = document.descendants().filter(Node::is_element);
    const ELEMENTS: [&str; 9] = ["svg", "title", "desc", "defs", "pattern", "rect", "path", "text", "g"];
    let mut ids = std::collections::BTreeSet::new();
    for node in elements {
        assert!(ELEMENTS.contains(&node.tag_name().name()), "{node:?}");
        for attribute in node.attributes() {
            let (name, value) = (attribute.name(), attribute.value());
            assert!(!["style", "class", "href"].contains(&name) && !name.starts_with("on"), "{name}={value}");
            let numbers = value.split(|c: char| !(c.is_ascii_digit() || c == '.')).filter(|part| part.contains('.'));
            for part in numbers.filter(|_| name != "viewBox") {
                assert!(part.rsplit('.').next().unwrap().len() <= 2, "{name}={value}");
            }
            assert!(!value.contains("NaN") && !value.contains("inf"), "{name}={value}");
            if name == "id" {
                assert!(ids.insert(value), "{value} twice");
            }
        }
    }
    for label in root.attribute("aria-labelledby").unwrap().split(' ') {
        assert!(ids.contains(label), "{label}");
    }
    let boxes: Vec<([f64; 4], &str)> =
        texts(&document).map(|node| (box_of(node), node.text().unwrap_or_default())).collect();
    for (at, (a, words)) in boxes.iter().enumerate() {
        assert!(
            a[0] >= -1.0 && a[1] >= 0.0 && a[2] <= width + 1.0 && a[3] <= height,
            "{words:?} at {a:?} leaves the picture"
        );
        for (b, others) in &boxes[at + 1..] {
            let is_over = a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
            assert!(!is_over, "{words:?} at {a:?} is over {others:?} at {b:?}");
        }
    }
    for node in texts(&document) {
        assert!(number(node, "font-size") >= 11.0);
    }
}

fn check_text(text: &str, width: usize, ascii: bool) {
    for line in text.lines() {
        // A mark stands on the letter before it, and has no column.
        let columns = line.chars().filter(|c| c.is_ascii() || c.escape_debug().count() == 1).count();
        assert!(columns <= width, "{line:?} is wider than {width}");
        assert!(line.chars().all(|c| !c.is_control()), "{line:?}");
        assert!(!ascii || line.is_ascii(), "{line:?}");
        assert_eq!(line, line.trim_end());
    }
}

#[track_caller]
fn check_all(chart: &Chart) {
    let picture = svg::drawn(chart, "a");
    check(&picture);
    assert_eq!(picture, svg::drawn(chart, "a"));
    for (width, ascii) in [(80, false), (80, true), (30, true), (100, false)] {
        check_text(&terminal::drawn(chart, width, ascii), width, ascii);
        check_text(&chart.table.text(width.min(72), ascii), width.min(72), ascii);
    }
}

#[test]
fn charts_of_reports_keep_the_rules() {
    for (name, chart) in charts::all() {
        eprintln!("{name}");
        check_all(&chart);
    }
}

#[test]
fn every_series_and_every_title_is_in_every_form() {
    for (name, chart) in charts::all() {
        let picture = svg::drawn(&chart, name);
        let document = Document::parse(&picture).unwrap();
        let words: Vec<&str> = texts(&document).filter_map(|node| node.text()).collect();
        let blocks = terminal::drawn(&chart, 100, false);
        for series in chart.panels.iter().flat_map(|panel| &panel.series) {
            // Of repeats the legend says that they are there.
            let is_named = words.iter().any(|word| word.strip_suffix(", and each run").unwrap_or(word) == series.name);
            assert!(is_named, "{name}: {}", series.name);
            assert!(blocks.contains(&series.name), "{name}: {}\n{blocks}", series.name);
        }
        for described in [&chart.title, &chart.sentence] {
            assert!(document.descendants().any(|node| node.text() == Some(described)), "{described}");
            assert!(blocks.replace('\n', " ").contains(described.as_str()), "{described}\n{blocks}");
        }
        let text = chart.table.text(72, false);
        for cell in chart.table.rows.iter().flatten() {
            assert!(text.contains(&cell.text), "{name}: {}\n{text}", cell.text);
        }
    }
}

/// The corners of all paths, as far as they are absolute.
fn corners(document: &Document<'_>) -> Vec<(f64, f64)> {
    let paths = document.descendants().filter(|node| node.has_tag_name("path")).filter_map(|node| node.attribute("d"));
    let of = |path: &str| {
        let parts =
            path.split(['M', 'L']).map(|part| part.split(|c: char| c.is_ascii_alphabetic()).next().unwrap_or(""));
        let corners = parts.filter_map(|part| part.split_once(' '));
        corners.filter_map(|(x, y)| Some((x.parse().ok()?, y.parse().ok()?))).collect::<Vec<(f64, f64)>>()
    };
    paths.flat_map(of).collect()
}

fn one(series: Series) -> Chart {
    let table = Table::new(["x", "y"]);
    Chart::new("Title", "Sentence.", table)
        .x(Axis::linear("time", "s"))
        .panel(Panel::new(Axis::linear("rate", "Mbit/s")).series(series))
}

#[test]
fn a_line_goes_through_its_values_and_has_gaps_where_there_are_none() {
    let points =
        [(0.0, Some(0.0)), (1.0, Some(10.0)), (2.0, None), (3.0, Some(5.0)), (4.0, Some(f64::NAN)), (5.0, Some(2.0))];
    let picture = svg::drawn(&one(Series::new("a", Marks::line(points), 0)), "a");
    let document = Document::parse(&picture).unwrap();
    let path = document.descendants().find(|node| node.attribute("stroke-width") == Some("2")).unwrap();
    let path = document.descendants().filter(|node| node.has_tag_name("path")).find(|node| {
        node.children().any(|title| title.text() == Some("a"))
            && node.attribute("stroke-width") == path.attribute("stroke-width")
    });
    assert_eq!(path.unwrap().attribute("d").unwrap().matches('M').count(), 3, "{picture}");
    // In the frame's own measure: the ends of both axes are values here.
    let mut corners = corners(&document);
    // The legend's are above it.
    corners.retain(|corner| corner.1 > 80.0);
    let ends = |of: fn(&(f64, f64)) -> f64| {
        corners.iter().map(of).fold((f64::MAX, f64::MIN), |(low, high), at| (low.min(at), high.max(at)))
    };
    let ((left, right), (top, bottom)) = (ends(|at| at.0), ends(|at| at.1));
    for (x, y) in [(0.0, 0.0), (1.0, 10.0), (5.0, 2.0)] {
        let at = (left + x / 5.0 * (right - left), bottom - y / 10.0 * (bottom - top));
        let near = |corner: &&(f64, f64)| (corner.0 - at.0).abs() < 1.0 && (corner.1 - at.1).abs() < 1.0;
        assert!(corners.iter().any(|corner| near(&corner)), "({x}, {y}) at {at:?}: {corners:?}");
    }
}

/// The rectangles whose title begins so, in their order.
fn frames(picture: &str, name: &str) -> Vec<[f64; 3]> {
    let document = Document::parse(picture).unwrap();
    let rects = document.descendants().filter(|node| node.has_tag_name("rect"));
    let is_it = |node: &Node<'_, '_>| {
        node.children().any(|title| title.text().is_some_and(|title| title.starts_with(&format!("{name}: "))))
    };
    rects.filter(is_it).map(|node| ["x", "y", "width"].map(|name| number(node, name))).collect()
}

#[test]
fn frames_are_as_wide_as_their_shares_and_stand_on_their_callers() {
    let picture = svg::drawn(&charts::flame(), "a");
    let one = |name| match frames(&picture, name)[..] {
        [one] => one,
        ref all => panic!("{name}: {all:?}"),
    };
    let [all, agent, softirq] = ["all", "linerate-agent", "ksoftirqd/0"].map(one);
    let [recv, copy, queue] = ["udp_recvmsg", "_copy_to_iter", "__skb_recv_udp"].map(one);
    let is_near = |a: f64, b: f64| assert!((a - b).abs() < 0.02, "{a}, {b}");
    is_near(agent[2], all[2] * 620.0 / 950.0);
    is_near(copy[2], all[2] * 300.0 / 950.0);
    is_near(softirq[0], agent[0] + agent[2]);
    is_near(copy[0], recv[0]);
    is_near(queue[0], copy[0] + copy[2]);
    assert!(copy[1] < recv[1] && recv[1] < agent[1] && agent[1] < all[1] && agent[1] == softirq[1]);
    // What claims more than its caller has is no wider than that.
    let frames_of = |frames| {
        let flame = Flame { unit: "samples".to_owned(), whole: 10.0, kinds: Vec::new(), frames };
        svg::drawn(&self::one(Series::new("", Marks::Flame(flame), 0)), "a")
    };
    let greedy =
        vec![Frame::new(0, "a", 4.0), Frame::new(1, "b", 3.0), Frame::new(1, "c", 3.0), Frame::new(0, "d", 99.0)];
    let picture = frames_of(greedy);
    let [a, b, c, d] = ["a", "b", "c", "d"].map(|name| frames(&picture, name)[0]);
    is_near(c[2], a[2] - b[2]);
    is_near(d[0] + d[2], a[0] + all[2]);
    let narrow = frames_of(vec![Frame::new(0, "a", 4.0), Frame::new(0, "b", 0.001)]);
    assert!(narrow.contains("1 function is too narrow to be drawn; the numbers have it."), "{narrow}");
}

#[test]
fn a_flame_graph_in_characters_is_a_tree() {
    let text = terminal::drawn(&charts::flame(), 72, true);
    let tree = text.split_once("target\n").unwrap().1;
    let wanted = "\
100.0 %  950  all samples
 65.3 %  620  linerate-agent > start_thread (libc.so.6)
 63.2 %  600  > do_syscall_64
 62.1 %  590  > __sys_recvmmsg [socket and system call]
 44.2 %  420  > udp_recvmsg [protocol]
 31.6 %  300    _copy_to_iter [copy]
  8.4 %   80    __skb_recv_udp [protocol]
 30.5 %  290  ksoftirqd/0 > net_rx_action [driver and interrupt]
 29.5 %  280  > fec_enet_rx_napi [driver and interrupt]
  1.3 %   12  > napi_gro_receive
";
    assert_eq!(tree, wanted);
}

#[test]
fn ten_thousand_values_are_as_many_as_pixels_show_and_the_extremes_stay() {
    let noise = |at: u32| f64::from(at.wrapping_mul(2_654_435_761) >> 16) / 65.536;
    let points: Vec<(f64, f64)> = (0..10_000).map(|at| (f64::from(at), noise(at))).collect();
    let mut extremes = points.clone();
    extremes[5_000].1 = 2_000.0;
    for marks in [Marks::line(extremes.clone()), Marks::step(extremes.clone())] {
        let picture = svg::drawn(&one(Series::new("a", marks, 0)), "a");
        check(&picture);
        assert!(picture.len() < 50_000, "{} bytes", picture.len());
        let document = Document::parse(&picture).unwrap();
        let highest = corners(&document).into_iter().filter(|at| at.1 > 60.0).map(|at| at.1).fold(f64::MAX, f64::min);
        let frame = corners(&document).into_iter().map(|at| at.1).fold(f64::MAX, f64::min);
        assert!((highest - frame).abs() < 0.5, "the highest is at the top");
    }
    for marks in [Marks::points(points.clone()), Marks::bar(points.clone())] {
        let picture = svg::drawn(&one(Series::new("a", marks, 0)), "a");
        check(&picture);
        assert!(picture.len() < 250_000, "{} bytes", picture.len());
    }
}

#[test]
fn what_has_no_place_is_counted() {
    let mut chart = one(Series::new("a", Marks::line([(0.0, 0.0), (1.0, 10.0), (2.0, -1.0)]), 0));
    chart.panels[0].y = Axis::log("loss", "%");
    assert!(svg::drawn(&chart, "a").contains("2 values of a have no place on this scale."));
    assert!(terminal::drawn(&chart, 80, true).contains("2 values of a have no place on this scale."));
    let empty = svg::drawn(&one(Series::new("a", Marks::line([(0.0, None)]), 0)), "a");
    assert!(empty.contains("a (no values)"));
}

const HOSTILE: [&str; 9] = [
    "</script><script>alert(1)</script>",
    "\"><svg onload=alert(1)>",
    "]]><!-- &amp; &#x0; <![CDATA[",
    "\u{1b}[2J\u{1b}]0;x\u{7}\u{9b}31m",
    "a\u{202e}b\u{2066}c\u{2028}d\u{0}\u{feff}\u{ffff}",
    "' style='x' onclick='x",
    "javascript:alert(1) | `id` ${IFS}",
    "日本語のとても長い名前日本語のとても長い名前日本語のとても長い名前日本語のとても長い名前日本語のとても長い名前",
    "Z\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
];

/// A chart in which everything that has a name has this one.
fn named(name: &str) -> Chart {
    let series = |marks, number| Series::new(format!("{name}{number}"), marks, number);
    let points = || [(0.0, 1.0), (1.0, 2.0)];
    let span = |x| Span { x, range: Some((0.5, 2.5)) };
    let estimate = Estimate { x: 1.0, low: 1.0, middle: Some(2.0), high: 3.0 };
    let mut stage = Stage::new(name);
    stage.branches = vec![Branch { name: name.to_owned(), count: 3.0, counter: name.to_owned() }];
    let flow = Flow { unit: name.to_owned(), entered: 10.0, stages: vec![stage], arrived: None, unaccounted: None };
    let frames = vec![Frame::new(0, name, 9.0).kind(0), Frame::new(1, name, 8.0).kind(7)];
    let flame = Flame { unit: name.to_owned(), whole: 10.0, kinds: vec![name.to_owned()], frames };
    Chart::new(name, name, Table::new([name, name]).row([Cell::from(name), Cell::number(name, 1.0).from_records(name)]))
        .x(Axis::categories(name, [name, name]).of(name))
        .panel(
            Panel::new(Axis::linear(name, name).of(name))
                .series(series(Marks::line(points()), 0))
                .series(series(Marks::step(points()), 1))
                .series(series(Marks::points(points()), 2))
                .series(series(Marks::bar(points()), 3))
                .series(series(Marks::Band(vec![span(0.0), span(1.0)]), 4))
                .series(series(Marks::Interval(vec![estimate]), 5))
                .series(series(Marks::Ideal { slope: 1.0 }, 6))
                .series(series(Marks::Flow(flow), 7))
                .series(series(Marks::Flame(flame), 8))
                .reference(Reference::X(0.5, name.to_owned()))
                .reference(Reference::Y(1.5, name.to_owned())),
        )
}

#[test]
fn names_do_nothing() {
    for name in HOSTILE {
        let chart = named(name);
        let picture = svg::drawn(&chart, name);
        check(&picture);
        for part in ["<script", "<svg onload", "\u{1b}", "\u{202e}", "\u{2028}", "\u{0}", "\u{9b}"] {
            assert!(!picture.contains(part), "{part:?} in {picture}");
        }
        assert_eq!(picture.matches("<svg").count(), 1);
        for text in [terminal::drawn(&chart, 80, false), chart.table.text(72, false)] {
            assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
            assert!(!text.contains(['\u{202e}', '\u{2066}', '\u{2028}', '\u{feff}']), "{text:?}");
        }
        assert!(terminal::drawn(&chart, 80, true).is_ascii());
    }
}

#[test]
fn pictures_of_one_page_have_ids_of_their_own() {
    let ids = |id: &str| {
        let picture = svg::drawn(&charts::cpu(), id);
        let document = Document::parse(&picture).unwrap();
        document.descendants().filter_map(|node| node.attribute("id").map(str::to_owned)).collect::<Vec<_>>()
    };
    let (a, b) = (ids("cpu-1"), ids("cpu-2"));
    assert!(a.len() > 2 && a.iter().all(|id| !b.contains(id)));
}

#[test]
fn panels_of_one_quantity_have_one_scale() {
    let axis = || Axis::linear("rate", "Mbit/s");
    let of = |range| {
        let chart = Chart::new("", "", Table::default())
            .panel(Panel::new(axis()).series(Series::new("a", Marks::line([(0.0, 1.0), (1.0, 990.0)]), 0)))
            .panel(Panel::new(axis().range(range)).series(Series::new("b", Marks::line([(0.0, 1.0), (1.0, 9.0)]), 0)));
        svg::drawn(&chart, "a").matches(">1,000</text>").count()
    };
    // The x axis ends at 1.
    assert_eq!(of(Range::Shared), 2);
    assert_eq!(of(Range::Own), 1);
    assert_eq!(of(Range::AtLeast(0.0, 1000.0)), 2);
}

fn value() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -1e3..1e3,
        2 => 0.0..1.0,
        1 => prop::sample::select(vec![0.0, -0.0, 1.0, 1e12, -1e12, 1e-12, 5e-324, f64::MAX, f64::MIN, f64::NAN,
            f64::INFINITY, f64::NEG_INFINITY, 1e199, -1e199, 0.999_999_999_999]),
    ]
}

fn points() -> impl Strategy<Value = Vec<Point>> {
    let point = (value(), prop::option::weighted(0.9, value())).prop_map(|(x, y)| Point { x, y });
    prop_oneof![
        prop::collection::vec(point, 0..12),
        (value(), 0usize..5).prop_map(|(at, count)| vec![Point { x: at, y: Some(at) }; count])
    ]
}

fn marks() -> impl Strategy<Value = Marks> {
    let spans = prop::collection::vec((value(), prop::option::of((value(), value()))), 0..6);
    let estimates = prop::collection::vec((value(), value(), prop::option::of(value()), value()), 0..6);
    let flow = (value(), prop::collection::vec(prop::collection::vec(value(), 0..3), 0..14), prop::option::of(value()));
    let frame = (0usize..9, "[a-z_ ]{0,30}", value(), prop::option::of(0usize..12));
    let frame = frame.prop_map(|(depth, name, count, kind)| Frame { depth, name, count, kind });
    let flame = (value(), prop::collection::vec("[a-z]{0,12}", 0..10), prop::collection::vec(frame, 0..40));
    prop_oneof![
        points().prop_map(Marks::Line),
        points().prop_map(Marks::Step),
        points().prop_map(Marks::Points),
        points().prop_map(Marks::Bar),
        value().prop_map(|slope| Marks::Ideal { slope }),
        spans.prop_map(|all| Marks::Band(all.into_iter().map(|(x, range)| Span { x, range }).collect())),
        estimates.prop_map(|all| {
            Marks::Interval(all.into_iter().map(|(x, low, middle, high)| Estimate { x, low, middle, high }).collect())
        }),
        flame.prop_map(|(whole, kinds, frames)| {
            Marks::Flame(Flame { unit: "samples".to_owned(), whole, kinds, frames })
        }),
        flow.prop_map(|(entered, stages, arrived)| {
            let branches = |counts: Vec<f64>| {
                counts
                    .into_iter()
                    .fold(Stage::new("MAC RX FIFO"), |stage, count| stage.branch("lost", count, "rx_errors"))
            };
            let stages = stages.into_iter().map(branches).collect();
            Marks::Flow(Flow { unit: "packets".to_owned(), entered, stages, arrived, unaccounted: arrived })
        }),
    ]
}

fn axis() -> impl Strategy<Value = Axis> {
    let range =
        prop_oneof![Just(Range::Shared), Just(Range::Own), (value(), value()).prop_map(|(a, b)| Range::AtLeast(a, b))];
    let names = prop::collection::vec("[a-z ]{0,30}", 0..30);
    let scale = prop_oneof![
        Just(Axis::linear("rate", "Mbit/s")),
        Just(Axis::linear("rate", "Mbit/s").without_zero()),
        Just(Axis::log("delay", "µs")),
        Just(Axis::percentile("share")),
        names.prop_map(|names| Axis::categories("name", names)),
    ];
    (scale, range).prop_map(|(axis, range)| axis.range(range))
}

fn panel() -> impl Strategy<Value = Panel> {
    let series = (marks(), 0usize..12, any::<bool>(), "[a-z]{0,12}");
    let series = series.prop_map(|(marks, number, is_thin, name)| {
        let series = Series::new(name, marks, number);
        if is_thin { series.thin().dash(Dash::Dotted).symbol(Symbol::None) } else { series }
    });
    let line = (value(), any::<bool>(), "[a-zA-Z ]{0,40}");
    let line = line.prop_map(|(at, is_x, name)| if is_x { Reference::X(at, name) } else { Reference::Y(at, name) });
    let parts = (axis(), prop::collection::vec(series, 0..6), prop::collection::vec(line, 0..8), any::<bool>());
    parts.prop_map(|(y, series, references, is_small)| Panel { y, series, references, is_small })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_values_make_a_picture(x in axis(), panels in prop::collection::vec(panel(), 0..4), title in ".{0,200}") {
        let table = Table::new(["a"]).row([Cell::from(title.as_str())]);
        let mut chart = Chart::new(title.clone(), title, table).x(x);
        chart.panels = panels;
        check_all(&chart);
    }

    #[test]
    fn any_name_is_inert(name in "(?s:[\\x00-\\xff]|.){0,60}") {
        let chart = named(&name);
        check(&svg::drawn(&chart, &name));
        check_text(&terminal::drawn(&chart, 80, true), 80, true);
        check_text(&chart.table.text(72, true), 72, true);
    }

    #[test]
    fn any_table_fits(head in prop::collection::vec(".{0,30}", 0..12), rows in prop::collection::vec(prop::collection::vec(".{0,40}", 0..14), 0..6)) {
        let table = rows.into_iter().fold(Table::new(head), |table, row| table.row(row));
        check_text(&table.text(72, true), 72, true);
        check_text(&table.text(20, true), 20, true);
    }
}
