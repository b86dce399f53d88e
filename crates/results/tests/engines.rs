//! The same questions to a store in a file and to one on a PostgreSQL server have the same answers, byte for byte.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use linerate_lab::services::Postgres;
use linerate_machine::end::Direction;
use linerate_results::figure::{METRICS, Metric};
use linerate_results::record::Record;
use linerate_results::sample;
use linerate_results::select::{Filter, Selection};
use linerate_results::store::{Campaign, Store, StoreError};
use linerate_trial::pace::SplitMix64;
use linerate_trial::spec::Workload;

struct Server {
    postgres: Postgres,
    folder: PathBuf,
}

impl Server {
    /// `None`, said by name, where PostgreSQL is not installed.
    fn new(name: &str) -> Option<Server> {
        if !Postgres::is_installed() {
            println!("skipped: {name}: PostgreSQL is not installed (cargo xtask setup)");
            return None;
        }
        let folder = std::env::temp_dir().join(format!("linerate-engines-{name}-{}", std::process::id()));
        let postgres = Postgres::start(&folder).unwrap();
        Some(Server { postgres, folder })
    }

    fn open(&self) -> Store {
        Store::open(Path::new(&self.postgres.url())).unwrap()
    }

    /// What the server's own client answers.
    fn psql(&self, sql: &str) -> String {
        let mut psql = std::process::Command::new("psql");
        psql.arg("-h").arg(&self.folder).args(["-U", "linerate", "postgres", "-v", "ON_ERROR_STOP=1", "-Atqc", sql]);
        let output = psql.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

fn campaign(id: &str, plan: &str) -> Campaign {
    Campaign {
        id: id.to_owned(),
        plan: plan.to_owned(),
        plan_text: "[plan]\nname = \"it's\" # \\ \u{202e} ?1 $1".to_owned(),
        target: "netns:b".to_owned(),
        host: "netns:a".to_owned(),
        started_at: "2026-11-21T03:00:00Z".to_owned(),
        planned: 3,
        finished_at: None,
    }
}

/// A record by chance, of one of the plans and campaigns.
fn drawn(random: &mut SplitMix64, index: u32) -> Record {
    let way = if random.below(2) == 0 { Direction::Rx } else { Direction::Tx };
    let mbit = 100 * (1 + random.below(9) as u32);
    let record = match random.below(7) {
        0 | 1 => sample::udp(index, way, mbit, f64::from(mbit) * 0.9 + random.below(1000) as f64 / 997.0),
        2 => sample::tcp(index, way, 100.0 + random.below(100_000) as f64 / 7.0, random.below(2) == 0),
        3 => sample::rr(index, "64"),
        4 => sample::both(index),
        5 => sample::failed(index),
        _ => sample::ttcp(index, random.below(3) as u32),
    };
    let plan = ["tcp", "Udp sweep", "ünï", "a'b"][random.below(4) as usize];
    Record { campaign: format!("0{}CAMPAIGN", random.below(4)), plan: plan.to_owned(), ..record }
}

/// Every answer that the store has, as text.
fn answers(store: &Store, ids: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    let mut say = |what: &str, answer: String| all.push(format!("{what}: {answer}"));
    for plan in [None, Some("tcp"), Some("a'b"), Some("nothing")] {
        for limit in [None, Some(0), Some(2)] {
            say("campaigns", format!("{:?}", store.campaigns(plan, limit).unwrap().0));
        }
    }
    let none = Filter::default;
    for filter in [
        none(),
        Filter { limit: Some(3), ..none() },
        Filter { plan: Some("ünï".to_owned()), ..none() },
        Filter { campaign: Some("01CAMPAIGN".to_owned()), workload: Some(Workload::UdpStream), ..none() },
        Filter { among: Some(ids.iter().step_by(3).cloned().collect()), limit: Some(5), ..none() },
        Filter { among: Some(Default::default()), ..none() },
        Filter { since_ms: Some(1_795_230_003_000), until_ms: Some(1_795_230_020_000), ..none() },
        Filter { plan: Some("x' OR 1=1 --".to_owned()), ..none() },
    ] {
        say("list", format!("{:?}", store.list(&filter).unwrap().0));
        say("identifiers", format!("{:?}", store.identifiers(&filter).unwrap()));
    }
    let reader = store.reader().unwrap();
    for id in ids {
        say("text", reader.with_text(id).unwrap().1);
    }
    for name in ["last", "tcp", "Udp sweep", "0", "01", "01c", "nothing", "", "7", &ids[0], &ids[0][..8]] {
        for back in [0, 1] {
            let called = store.called(name, back).map_err(|error| error.to_string());
            say("called", format!("{name}~{back} {called:?}").replace(&store.path().display().to_string(), "STORE"));
        }
    }
    let refer: Vec<&str> = ids.iter().map(String::as_str).collect();
    say("digits", format!("{:?} {:?}", store.digits_of_records(&refer), store.digits_of_campaigns(&["01CAMPAIGN"])));
    for wanted in [
        Selection::default(),
        Selection { campaign: Some("02CAMPAIGN".to_owned()), ..Selection::default() },
        Selection { levels: vec![("rate".to_owned(), "200M".to_owned())], ..Selection::default() },
        Selection { since_ms: Some(1_795_230_010_000), ..Selection::default() },
    ] {
        say("observations", format!("{:?}", store.observations(&wanted).unwrap()));
        for metric in METRICS.iter() {
            for last in [1, 3, usize::MAX] {
                say("points", format!("{} {:?}", metric.name, store.points(metric, &wanted, last).unwrap()));
            }
        }
    }
    for campaign in ["00CAMPAIGN", "03CAMPAIGN", "no"] {
        say("finished", format!("{:?} {:?}", store.finished_trials(campaign), store.campaign(campaign)));
        say("records", format!("{}", store.records_of(campaign).unwrap().0.len()));
    }
    say("latest", format!("{:?}", store.latest_unfinished("tcp", "netns:b", "netns:a")));
    say("latest", format!("{:?}", store.latest_campaign()));
    all
}

#[test]
fn both_engines_answer_the_same() {
    let Some(server) = Server::new("same") else { return };
    let mut stores = [Store::in_memory().unwrap(), server.open()];
    let seed = std::process::id().into();
    let mut random = SplitMix64::new(seed);
    println!("seed {seed}");
    let records: Vec<Record> = (0..60).map(|index| drawn(&mut random, index)).collect();
    for store in &mut stores {
        for (id, plan) in
            [("00CAMPAIGN", "tcp"), ("01CAMPAIGN", "Udp sweep"), ("02CAMPAIGN", "tcp"), ("03CAMPAIGN", "a'b")]
        {
            store.campaign_begin(&campaign(id, plan)).unwrap();
        }
        for record in &records {
            store.insert(record).unwrap();
        }
        store.campaign_finish("02CAMPAIGN", "2026-11-21T04:00:00Z").unwrap();
        assert!(matches!(store.insert(&records[7]), Err(StoreError::Exists(_))));
        assert!(matches!(store.campaign_finish("no", ""), Err(StoreError::Unknown { .. })));
        assert!(matches!(store.record("no"), Err(StoreError::Unknown { .. })));
        // An identifier that is there twice leaves nothing behind, and the next one is taken.
        assert_eq!(store.identifiers(&Filter::default()).unwrap().len(), records.len());
    }
    let ids = stores[0].identifiers(&Filter::default()).unwrap();
    let [file, on_server] = stores.each_ref().map(|store| answers(store, &ids));
    for (one, other) in file.iter().zip(&on_server) {
        assert_eq!(one, other);
    }
    assert_eq!(file.len(), on_server.len());
    // Opened again, it has them still.
    drop(stores);
    assert_eq!(answers(&server.open(), &ids), file);
    let existing = Store::open_existing(Path::new(&server.postgres.url())).unwrap();
    assert_eq!(existing.identifiers(&Filter::default()).unwrap(), ids);
}

#[test]
fn many_write_to_a_new_server_at_once_and_a_crash_loses_nothing() {
    let Some(mut server) = Server::new("many") else { return };
    let url = server.postgres.url();
    let none = Store::open_existing(Path::new(&url)).unwrap_err().to_string();
    assert!(none.contains("there are no records"), "{none}");
    std::thread::scope(|scope| {
        for writer in 0..6 {
            let url = &url;
            scope.spawn(move || {
                let mut store = Store::open(Path::new(url)).unwrap();
                for k in 0..8 {
                    store.insert(&sample::udp(writer * 8 + k, Direction::Rx, 600, 400.0)).unwrap();
                }
            });
        }
    });
    // What is derived stands: it is made once, and not by each that opens the store.
    let made = || server.psql("SELECT 'figures'::regclass::oid");
    let before = made();
    let mut store = server.open();
    assert_eq!((made(), before.is_empty()), (before, false));
    server.postgres.crash().unwrap();
    let error = store.insert(&sample::udp(48, Direction::Rx, 600, 400.0)).unwrap_err().to_string();
    assert!(error.contains("postgres://linerate@") && !error.contains('\n'), "{error}");
    let store = server.open();
    assert_eq!(store.identifiers(&Filter::default()).unwrap().len(), 48);
    assert_eq!(store.observations(&Selection::default()).unwrap().len(), 48);
    let indices: BTreeSet<u32> = store.list(&Filter::default()).unwrap().0.iter().map(|one| one.index).collect();
    assert_eq!(indices, (0..48).collect());
}

#[test]
fn what_a_server_does_not_do_is_said_with_what_to_do() {
    let Some(server) = Server::new("refusals") else { return };
    let url = server.postgres.url();
    let mut store = server.open();
    store.insert(&sample::udp(0, Direction::Rx, 600, 400.0)).unwrap();
    server.psql("CREATE ROLE reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader");
    let of_reader = url.replace("linerate@", "reader@");
    assert_ne!(of_reader, url);
    let mut reader = Store::open_existing(Path::new(&of_reader)).unwrap();
    assert_eq!(reader.identifiers(&Filter::default()).unwrap().len(), 1);
    let denied = reader.insert(&sample::udp(1, Direction::Rx, 600, 400.0)).unwrap_err().to_string();
    assert!(denied.contains("permission denied for table") && denied.contains("docs/teams.md"), "{denied}");
    assert!(!denied.contains("db error"), "{denied}");
    // Somebody else's tables, of the same name; and a store of which something is gone.
    server.psql("DROP TABLE records CASCADE");
    let gone = Store::open(Path::new(&url)).and_then(|store| store.identifiers(&Filter::default())).unwrap_err();
    assert!(gone.to_string().contains("restore this one"), "{gone}");
    server.psql("CREATE SCHEMA other; CREATE TABLE other.records (a int)");
    let other = Store::open(Path::new(&format!("{url}?options=-csearch_path%3Dother"))).map(drop).unwrap_err();
    assert!(other.to_string().contains("createdb"), "{other}");
    let words = Store::open(Path::new(&format!("{url}?sslmode=verify-full"))).map(drop).unwrap_err().to_string();
    assert!(words.contains("disable, prefer or require"), "{words}");
}

/// Those who bring the same trial's figures at a time, as one that stood still and one that carried its campaign on: one has it.
#[test]
fn of_many_who_bring_a_trial_one_has_it() {
    let Some(server) = Server::new("trials") else { return };
    let file = std::env::temp_dir().join(format!("linerate-trials-{}", std::process::id()));
    for path in [PathBuf::from(server.postgres.url()), file.clone()] {
        let mut store = Store::open(&path).unwrap();
        let record = sample::udp(0, Direction::Rx, 600, 400.0);
        store.campaign_begin(&campaign(&record.campaign, "tcp")).unwrap();
        let bring = &|writer: u8| {
            let mut store = Store::open(&path).unwrap();
            let mut kept = 0;
            for trial in 0..20 {
                let mut record = sample::udp(trial, Direction::Rx, 600, 400.0);
                record.id = linerate_results::id::id(1_795_230_000_000 + u64::from(trial), [writer; 10]);
                match store.insert(&record) {
                    Ok(()) => kept += 1,
                    Err(error) => assert!(matches!(error, StoreError::Measured { .. }), "{error}"),
                }
            }
            kept
        };
        let kept: Vec<u32> = std::thread::scope(|scope| {
            let all = [1, 2, 3, 4].map(|writer| scope.spawn(move || bring(writer)));
            all.map(|one| one.join().unwrap()).to_vec()
        });
        assert_eq!(kept.iter().sum::<u32>(), 20, "{kept:?}");
        assert_eq!(store.identifiers(&Filter::default()).unwrap().len(), 20);
    }
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", file.display()));
    }
}

/// A push that is begun twice, as by hand beside a timer: each record is there once, and is one of either push.
#[test]
fn of_two_who_push_the_same_each_record_is_taken_once() {
    let Some(server) = Server::new("pushes") else { return };
    let url = server.postgres.url();
    drop(server.open());
    let push = || {
        let mut ours = Store::in_memory().unwrap();
        (0..600).for_each(|index| ours.insert(&sample::udp(index, Direction::Rx, 600, 400.0)).unwrap());
        let mut team = Store::open(Path::new(&url)).unwrap();
        let copied = ours.copy_to(&mut team, &Filter::default()).unwrap();
        [copied.records, copied.already]
    };
    let pushed = std::thread::scope(|scope| [scope.spawn(push), scope.spawn(push)].map(|one| one.join().unwrap()));
    assert_eq!(pushed.map(|[new, already]| new + already), [600; 2], "{pushed:?}");
    assert_eq!(pushed[0][0] + pushed[1][0], 600, "{pushed:?}");
    assert_eq!(server.open().identifiers(&Filter::default()).unwrap().len(), 600);
}

#[test]
fn records_go_there_and_back_each_once() {
    let Some(server) = Server::new("copy") else { return };
    let mut random = SplitMix64::new(std::process::id().into());
    let mut ours = Store::in_memory().unwrap();
    for (id, plan) in [("00CAMPAIGN", "tcp"), ("01CAMPAIGN", "tcp"), ("02CAMPAIGN", "tcp"), ("03CAMPAIGN", "a'b")] {
        ours.campaign_begin(&campaign(id, plan)).unwrap();
    }
    let records: Vec<Record> = (0..30).map(|index| drawn(&mut random, index)).collect();
    records.iter().for_each(|record| ours.insert(record).unwrap());
    let all = Filter::default();
    let check = |from: &Store, to: &mut Store, wanted: &Filter, want: (u64, u64)| {
        let copied = from.copy_to(to, wanted).unwrap();
        assert_eq!((copied.records, copied.already), want);
    };
    let mut team = server.open();
    check(&ours, &mut team, &Filter { limit: Some(10), ..Filter::default() }, (10, 0));
    check(&ours, &mut team, &all, (20, 10));
    check(&ours, &mut team, &all, (0, 30));
    ours.campaign_finish("02CAMPAIGN", "2026-11-21T04:00:00Z").unwrap();
    check(&ours, &mut team, &all, (0, 30));
    let mut back = Store::in_memory().unwrap();
    check(&team, &mut back, &all, (30, 0));
    let ids = ours.identifiers(&all).unwrap();
    // A campaign without records is in no copy.
    let known: Vec<String> = answers(&ours, &ids).into_iter().filter(|one| !one.starts_with("campaigns")).collect();
    let copied: Vec<String> = answers(&back, &ids).into_iter().filter(|one| !one.starts_with("campaigns")).collect();
    assert_eq!(known, copied);
    // Somebody changed a figure.
    let mut other = Store::in_memory().unwrap();
    let forged = Record { plan: "forged".to_owned(), ..records[3].clone() };
    other.insert(&forged).unwrap();
    let error = other.copy_to(&mut team, &all).unwrap_err().to_string();
    assert!(error.contains(&forged.id) && error.contains("never changed"), "{error}");
    assert_eq!(team.record(&forged.id).unwrap(), records[3]);
}

/// A million records: `LINERATE_CAMPAIGNS_KEPT=10000`, with `--release`.
#[test]
fn a_history_on_a_server_reads_by_the_index() {
    let Some(server) = Server::new("history") else { return };
    let campaigns = std::env::var("LINERATE_CAMPAIGNS_KEPT").ok().and_then(|text| text.parse().ok()).unwrap_or(300);
    let mut store = server.open();
    for index in 0..100 {
        store.insert(&sample::udp(index, Direction::Rx, 100, 90.0 + f64::from(index % 10))).unwrap();
    }
    store.lengthen(campaigns as u64).unwrap();
    server.psql("ANALYZE figures");
    let metric = Metric::find("throughput").unwrap();
    let store = server.open();
    let begun = std::time::Instant::now();
    let points = store.points(metric, &Selection::default(), 1000).unwrap();
    println!("{} of {} records in {:?}", points.len(), 100 * (campaigns + 1), begun.elapsed());
    assert_eq!(points.len(), 100 * (campaigns + 1).min(1000));
    // From the next conversation on, the server writes down how it carried each statement out.
    for (name, value) in [("session_preload_libraries", "auto_explain"), ("auto_explain.log_min_duration", "0")] {
        server.psql(&format!("ALTER ROLE linerate SET {name} = '{value}'"));
    }
    let store = server.open();
    let log = || std::fs::read_to_string(server.folder.join("log")).unwrap();
    let before = log().len();
    assert_eq!(store.points(metric, &Selection::default(), 1000).unwrap(), points);
    let log = &log()[before..];
    let of_table: Vec<&str> = log.lines().filter(|line| line.contains(" on figures")).collect();
    assert!(of_table.len() > campaigns.min(1000) / 50, "{log}");
    let by_index = |line: &&str| line.contains("Index") && line.contains("figures_by_campaign");
    let others: Vec<&&str> = of_table.iter().filter(|line| !by_index(line) && !line.contains("Bitmap Heap")).collect();
    assert!(others.is_empty(), "{others:#?}");
}
