//! The store as its users need it, over SQLite.

use linerate_machine::end::Direction;
use linerate_trial::spec::Workload;

use std::os::unix::fs::MetadataExt;
use std::time::Duration;

use rusqlite::{Connection, ffi};

use super::*;
use crate::figure::Metric;
use crate::observation::Observation;
use crate::sample;
use crate::select::Selection;

fn sqlite(store: &Store) -> &Connection {
    match &store.database {
        Database::Sqlite(connection) => connection,
        #[cfg(feature = "postgres")]
        Database::Postgres(_) => panic!("it is no file"),
    }
}

/// A folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("linerate-results-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn campaign(id: &str) -> Campaign {
    Campaign {
        id: id.to_owned(),
        plan: "example".to_owned(),
        plan_text: "[plan]\nname = \"example\"".to_owned(),
        target: "netns:b".to_owned(),
        host: "netns:a".to_owned(),
        started_at: "2026-11-21T03:00:00Z".to_owned(),
        planned: 3,
        finished_at: None,
    }
}

#[test]
fn every_kind_of_record_survives() {
    let mut store = Store::in_memory().unwrap();
    let records = [
        sample::udp(0, Direction::Rx, 600, 400.0),
        sample::tcp(1, Direction::Tx, 936.4, true),
        sample::rr(2, "64"),
        sample::both(3),
        sample::failed(4),
        sample::full(),
    ];
    for record in &records {
        store.insert(record).unwrap();
        let read = store.record(&record.id).unwrap();
        assert_eq!(read.to_json(), record.to_json());
        assert_eq!(read, *record);
    }
    assert_eq!(store.records_of(&records[0].campaign).unwrap().0.len(), records.len());
    assert_eq!(store.finished_trials(&records[0].campaign).unwrap(), BTreeSet::from([0, 1, 2, 3, 12]));
}

#[test]
fn a_record_is_never_changed() {
    let mut store = Store::in_memory().unwrap();
    let record = sample::udp(0, Direction::Rx, 600, 400.0);
    store.insert(&record).unwrap();
    let again = Record { plan: "other".to_owned(), ..record.clone() };
    assert!(matches!(store.insert(&again), Err(StoreError::Exists(_))));
    let columns = "id, campaign, plan, trial_index, repeat, workload, direction, started_at, target, host,
        throughput_bps, loss_ratio, transactions_per_s, failed, sender_api, receiver_api, packed";
    for sql in [
        "UPDATE records SET plan = 'other'".to_owned(),
        "DELETE FROM records".to_owned(),
        format!("INSERT OR REPLACE INTO records ({columns}) SELECT {columns} FROM records"),
    ] {
        assert!(sqlite(&store).execute(&sql, []).unwrap_err().to_string().contains("never"), "{sql}");
    }
    assert_eq!(store.record(&record.id).unwrap(), record);
}

#[test]
fn a_trial_has_figures_once() {
    let mut store = Store::in_memory().unwrap();
    let first = sample::udp(0, Direction::Rx, 600, 400.0);
    let as_of = |id: u64, campaign: &str, record: &Record| Record {
        id: crate::id::id(id, [3; 10]),
        campaign: campaign.to_owned(),
        ..record.clone()
    };
    // Tried twice without figures before.
    let failed = sample::failed(0);
    for at in 1..3 {
        store.insert(&as_of(at, &first.campaign, &failed)).unwrap();
    }
    store.insert(&first).unwrap();
    let again = store.insert(&as_of(3, &first.campaign, &first)).unwrap_err();
    assert!(matches!(&again, StoreError::Measured { id, .. } if *id == first.id), "{again}");
    // Nothing of it is there; another campaign's trial, and a failure afterwards, are no matter.
    assert_eq!(store.records_of(&first.campaign).unwrap().0.len(), 3);
    store.insert(&as_of(3, "other", &first)).unwrap();
    store.insert(&as_of(4, &first.campaign, &failed)).unwrap();
    assert_eq!(store.identifiers(&Filter::default()).unwrap().len(), 5);
}

#[test]
fn what_could_not_be_read_again_is_refused() {
    let mut store = Store::in_memory().unwrap();
    let mut record = sample::udp(0, Direction::Rx, 600, 400.0);
    record.intervals[0].start_s = f64::NAN;
    let error = store.insert(&record).unwrap_err();
    assert!(error.to_string().contains("start_s"), "{error}");
    record.intervals.clear();
    record.result.as_mut().unwrap().flow.jitter_s = Some(f64::NAN);
    store.insert(&record).unwrap();
    assert_eq!(store.record(&record.id).unwrap().result.unwrap().flow.jitter_s, None, "no figure is absent");
    let mut absurd = record.clone();
    absurd.id = crate::id::id(7, [7; 10]);
    absurd.target.cpu.as_mut().unwrap().machine.busy = 1e308;
    let error = store.insert(&absurd).unwrap_err();
    assert!(error.to_string().contains("a number that nothing measured can be"), "{error}");
    record.id = "7".to_owned();
    assert!(matches!(store.insert(&record), Err(StoreError::BadRecord { .. })));
}

#[test]
fn a_store_is_made_with_the_first_that_is_kept_in_it() {
    let folder = std::env::temp_dir().join(format!("linerate-to-keep-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let what_is_there = || std::fs::read_dir(&folder).unwrap().count();
    let (path, deep) = (folder.join("a.sqlite"), folder.join("b/c/d.sqlite"));
    // What one that was killed has left of its trial.
    let trial = path.with_file_name(format!(".linerate-{}", fs::metadata("/proc/self").unwrap().uid()));
    fs::write(&trial, "").unwrap();
    let mut store = Store::open_to_keep(&path, false).unwrap();
    assert!(!trial.exists());
    let mut other = Store::open_to_keep(&deep, true).unwrap();
    assert!(store.list(&Filter::default()).unwrap().0.is_empty() && store.latest_campaign().unwrap().is_none());
    assert_eq!((store.path(), what_is_there()), (&*path, 0));
    assert!(matches!(Store::open_to_keep(&deep, false), Err(StoreError::NoFolder(_))));

    // Another process was quicker.
    let record = sample::udp(0, Direction::Rx, 600, 400.0);
    Store::open(&path).unwrap().insert(&record).unwrap();
    store.campaign_begin(&campaign("1")).unwrap();
    assert_eq!(store.record(&record.id).unwrap(), record);
    assert!(Store::open_to_keep(&path, false).unwrap().campaign("1").unwrap().is_some());
    // What is copied is kept, and what is not there to be copied is not.
    let none = Filter { limit: Some(0), ..Filter::default() };
    assert_eq!(store.copy_to(&mut other, &none).unwrap().records, 0);
    assert!(!folder.join("b").exists());
    assert_eq!(store.copy_to(&mut other, &Filter::default()).unwrap().records, 1);
    assert_eq!(Store::open_existing(&deep).unwrap().list(&Filter::default()).unwrap().0.len(), 1);
    std::fs::remove_dir_all(folder).unwrap();
}

/// As by whoever hands a store on.
#[test]
fn a_figure_that_nothing_measured_can_be_is_absent_in_columns_too() {
    let mut store = Store::in_memory().unwrap();
    let record = sample::udp(0, Direction::Rx, 600, 400.0);
    store.insert(&record).unwrap();
    let [throughput, cpu] = ["throughput", "target_cpu_busy"].map(|name| Metric::find(name).unwrap());
    let told = |store: &Store| {
        let seen = store.observations(&Selection::default()).unwrap().remove(0);
        let points = store.points(throughput, &Selection::default(), 10).unwrap().len();
        let listed = store.list(&Filter::default()).unwrap().0[0].throughput_bps;
        [seen.value(throughput).is_some(), seen.value(cpu).is_some(), points > 0, listed.is_some()]
    };
    assert_eq!(told(&store), [true; 4]);
    let forged = format!(
        "DROP TRIGGER records_are_never_changed; UPDATE records SET throughput_bps = 1e308;
         UPDATE figures SET {} = 9e999, {} = -1e308",
        throughput.name, cpu.name
    );
    sqlite(&store).execute_batch(&forged).unwrap();
    // Figures are made anew from the record, and a list has the record's own.
    assert_eq!(told(&store), [true; 4]);
    // Of a record that cannot be read there are its columns.
    let damage = "UPDATE records SET packed = x'0011'; DELETE FROM figures";
    sqlite(&store).execute_batch(damage).unwrap();
    assert_eq!(store.list(&Filter::default()).unwrap().0[0].throughput_bps, None);
    sqlite(&store).execute_batch("UPDATE records SET throughput_bps = -5e6").unwrap();
    assert_eq!(store.list(&Filter::default()).unwrap().0[0].throughput_bps, None);
}

/// As by a turned bit: no checksum of the file's covers them.
#[test]
fn a_list_shows_what_records_say_whatever_became_of_their_columns() {
    let records: Vec<Record> = (0..3).map(|index| sample::udp(index, Direction::Rx, 600, 400.0)).collect();
    let want: Vec<Listed> = records.iter().map(Listed::of).collect();
    assert!(want.iter().all(|one| !one.factors.is_empty() && one.loss_ratio.is_some() && one.apis[1].is_some()));
    let levels: Vec<(String, String)> = records[0].trial.factors.clone().into_iter().collect();
    let of_level = Selection { levels, ..Selection::default() };
    let damaged = |change: &str| {
        let mut store = Store::in_memory().unwrap();
        store.campaign_begin(&campaign(&records[0].campaign)).unwrap();
        records.iter().for_each(|record| store.insert(record).unwrap());
        sqlite(&store).execute_batch(&format!("DROP TRIGGER records_are_never_changed; {change}")).unwrap();
        let (listed, unreadable) = store.list(&Filter::default()).unwrap();
        assert!(unreadable.is_empty() && listed == want, "{change}: {unreadable:?} {listed:#?}");
        let finished = store.finished_trials(&records[0].campaign).unwrap();
        assert_eq!(finished, BTreeSet::from([0, 1, 2]), "{change}");
        let summary = store.campaigns(None, None).unwrap().0.remove(0);
        assert_eq!((summary.done, summary.failed, summary.levels.len()), (3, 0, want[0].factors.len()), "{change}");
        store
    };
    let columns = [
        "campaign = 'x'",
        "plan = 'udp'",
        "trial_index = 2",
        "trial_index = -5",
        "repeat = 1",
        "workload = 'udp-rr'",
        "direction = 'tx'",
        "started_at = '1970-01-01T00:00:00Z'",
        "target = 'netns:x'",
        "throughput_bps = throughput_bps * 2",
        "loss_ratio = NULL",
        "transactions_per_s = 5",
        "failed = 1",
        "sender_api = 'plane'",
        "receiver_api = CAST(x'ff' AS TEXT)",
    ];
    columns.iter().for_each(|column| drop(damaged(&format!("UPDATE records SET {column} WHERE trial_index = 1"))));
    // As where an index has lost its rows.
    damaged(
        "CREATE INDEX empty ON figures (campaign) WHERE false; PRAGMA writable_schema = ON;
         UPDATE sqlite_schema SET rootpage = (SELECT sum(rootpage) FROM sqlite_schema
             WHERE name IN ('empty', 'figures_by_campaign')) - rootpage WHERE name IN ('empty', 'figures_by_campaign');
         PRAGMA writable_schema = RESET",
    );
    // What is picked by a level is looked for in what stands around each record.
    for derived in [
        "UPDATE figures SET listed = ''",
        "UPDATE around SET text = replace(text, '600', '700')",
        "UPDATE figures SET asked = 99",
    ] {
        assert_eq!(damaged(derived).wanted(&of_level, 10).unwrap().len(), 3, "{derived}");
        assert_eq!(damaged(derived).observations(&of_level).unwrap().len(), 3, "{derived}");
    }
    // A trial whose number another record's column has is measured.
    let mut store = damaged("UPDATE records SET trial_index = 7 WHERE trial_index = 1");
    store.insert(&sample::udp(7, Direction::Rx, 600, 400.0)).unwrap();
    // A record that stands under another's name is neither's.
    let named = format!("UPDATE records SET id = '{:026}' WHERE trial_index = 2", 9);
    sqlite(&store).execute_batch(&named).unwrap();
    let why = store.record(&format!("{:026}", 9)).unwrap_err().to_string();
    assert!(why.contains(&records[2].id), "{why}");
}

/// As by whoever hands a store on, or by a bad sector.
#[test]
fn figures_that_do_not_fit_their_records_are_made_anew() {
    let mut store = Store::in_memory().unwrap();
    let records: Vec<Record> = (0..5).map(|index| sample::udp(index, Direction::Rx, 600, 400.0)).collect();
    records.iter().for_each(|record| store.insert(record).unwrap());
    let throughput = Metric::find("throughput").unwrap();
    let all = Selection::default();
    let points = |store: &Store| store.points(throughput, &all, 10).unwrap();
    let (seen, figures) = (store.observations(&all).unwrap(), points(&store));
    let forgeries = [
        "UPDATE figures SET throughput_bps = throughput_bps * 1.5 WHERE trial_index = 2",
        "UPDATE figures SET throughput_bps = NULL, doubts = ''",
        "UPDATE OR IGNORE around SET text = replace(text, '600', '700')",
        "DROP TABLE around",
        "DROP TABLE figures",
    ];
    for forgery in forgeries {
        for first in [true, false] {
            sqlite(&store).execute_batch(forgery).unwrap();
            figures::make_current(&store.database).unwrap();
            if first {
                assert_eq!(points(&store), figures, "{forgery}");
            }
            assert_eq!(store.observations(&all).unwrap(), seen, "{forgery}");
            assert_eq!(points(&store), figures, "{forgery}");
        }
    }
    // Some of the rows, as an open store finds them, and one that is opened.
    for gone in ["trial_index = 3", "trial_index < 2", "true"] {
        sqlite(&store).execute_batch(&format!("DELETE FROM figures WHERE {gone}")).unwrap();
        store.has_gaps.set(true);
        assert_eq!(points(&store), figures, "{gone}");
        assert_eq!(store.observations(&all).unwrap(), seen, "{gone}");
    }
    // A record that cannot be read any more has no figures, and is named.
    let damage = "DROP TRIGGER records_are_never_changed; UPDATE records SET packed = x'0011' WHERE trial_index = 1";
    sqlite(&store).execute_batch(damage).unwrap();
    assert_eq!(points(&store).len(), 4);
    assert_eq!(store.observations(&all).unwrap().len(), 4);
    assert_eq!(store.unread(&all).unwrap(), [records[1].id.clone()]);
    // One that is not there any more has none either.
    let deletion = "DROP TRIGGER records_are_never_deleted; DELETE FROM records WHERE trial_index = 0";
    sqlite(&store).execute_batch(deletion).unwrap();
    assert_eq!(store.observations(&all).unwrap().len(), 3);
}

#[test]
fn of_a_store_that_is_opened_again_a_campaign_is_checked_once_and_when_it_has_grown() {
    let folder = Folder::new("checked-once");
    let path = folder.0.join("records.sqlite");
    let record = |index| sample::udp(index, Direction::Rx, 600, 400.0);
    let insert = |index| Store::open(&path).unwrap().insert(&record(index)).unwrap();
    (0..3).for_each(insert);
    let measured = record(0).result.unwrap().flow.throughput_bps.unwrap();
    let checked = CheckedRows::default();
    let throughput = Metric::find("throughput").unwrap();
    let values = |wanted: &Selection| {
        let store = Store::open(&path).unwrap().checking_once(&checked);
        store.points(throughput, wanted, 10).unwrap().into_iter().map(|point| point.value).collect::<Vec<f64>>()
    };
    let (all, first) = (Selection::default(), Selection { record: Some(record(0).id), ..Selection::default() });
    let forge =
        || sqlite(&Store::open(&path).unwrap()).execute_batch("UPDATE figures SET throughput_bps = 1.0").unwrap();
    // What was asked for by its levels is checked as a whole, or else the rest never would be.
    let none = Selection { levels: vec![("rate".to_owned(), "1M".to_owned())], ..Selection::default() };
    forge();
    assert_eq!(values(&none), [0.0; 0]);
    assert_eq!(values(&all), [measured; 3]);
    assert_eq!(values(&all), [measured; 3]);
    forge();
    assert_eq!(values(&all), [1.0; 3], "looked at already");
    assert_eq!(values(&first), [measured], "a part is always looked at");
    insert(3);
    assert_eq!(values(&all), [measured; 4], "it has grown");
    insert(4);
    forge();
    Store::open(&path).unwrap().checking_once(&checked).check().unwrap();
    let unchecked = Store::open(&path).unwrap();
    let columns = "SELECT throughput_bps FROM figures";
    let found: Vec<f64> = unchecked.rows(columns, Vec::new(), |row| row.get(0)).unwrap();
    assert_eq!(found, [measured; 5], "it was made anew");
    forge();
    assert_eq!(values(&all), [1.0; 5], "looked at before anybody asked");
}

/// As on a medium that is read only: root may write wherever it has the right to.
#[test]
fn a_store_that_cannot_be_written_is_read() {
    let folder = Folder::new("read-only");
    let path = folder.0.join("records of 100 %?.db");
    let mut store = Store::open(&path).unwrap();
    store.insert(&sample::udp(0, Direction::Rx, 600, 400.0)).unwrap();
    let all = Selection::default();
    let seen = store.observations(&all).unwrap();
    assert!(matches!(sqlite::open_to_read(&path), Err(StoreError::Unlogged(_))), "the log has it");
    drop(store);
    let reader = || Store::ready(sqlite::open_to_read(&path)?, path.clone());
    assert_eq!(reader().unwrap().observations(&all).unwrap(), seen);
    let written = reader().unwrap().insert(&sample::udp(1, Direction::Rx, 600, 400.0));
    assert!(matches!(written, Err(StoreError::NotWritable(_))));
    sqlite(&Store::open(&path).unwrap()).execute_batch("DROP TABLE figures").unwrap();
    assert!(matches!(reader().map(drop), Err(StoreError::NotDerived(_))));
}

#[test]
fn whoever_writes_waits_for_no_figures_of_others() {
    let folder = Folder::new("unmade");
    let path = folder.0.join("records.db");
    let mut store = Store::open(&path).unwrap();
    store.write_carelessly().unwrap();
    // More than one transaction makes.
    let records: Vec<Record> = (0..450).map(|index| sample::udp(index, Direction::Rx, 600, 400.0)).collect();
    records.iter().for_each(|record| store.insert(record).unwrap());
    sqlite(&store).execute_batch("DROP TABLE figures").unwrap();
    let count = |store: &Store, table: &str| -> u32 {
        sqlite(store).query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    };
    let mut writer = Store::open(&path).unwrap();
    writer.insert(&sample::ttcp(450, 0)).unwrap();
    assert_eq!((count(&writer, "unmade"), count(&writer, "figures")), (450, 1));
    // Two who read make them at a time, and a third writes.
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                assert!(Store::open(&path).unwrap().observations(&Selection::default()).unwrap().len() > 450)
            });
        }
        for index in 451..455 {
            writer.insert(&sample::ttcp(index, 0)).unwrap();
        }
    });
    assert_eq!((count(&writer, "unmade"), count(&writer, "figures")), (0, 455));
    let seen: Vec<String> = writer.observations(&Selection::default()).unwrap().into_iter().map(|one| one.id).collect();
    assert_eq!(seen, writer.identifiers(&Filter::default()).unwrap());
}

/// As by a bad sector, or by a newer version.
#[test]
fn a_record_that_cannot_be_read_keeps_none_of_the_others() {
    let mut store = Store::in_memory().unwrap();
    let records: Vec<Record> = (0..5).map(|index| sample::udp(index, Direction::Rx, 600, 400.0)).collect();
    records.iter().for_each(|record| store.insert(record).unwrap());
    sqlite(&store)
        .execute_batch(
            "DROP TRIGGER records_are_never_changed; UPDATE records SET packed = x'00' WHERE trial_index = 2",
        )
        .unwrap();
    let named = |unreadable: &[StoreError]| {
        let [StoreError::Unreadable { id, .. }] = unreadable else { panic!("{unreadable:?}") };
        assert_eq!(*id, records[2].id);
    };
    let (all, mut read) = (Filter::default(), Vec::new());
    named(&store.each(&all, |record, json| read.push((record.trial.index, json))).unwrap());
    assert_eq!(read.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 1, 3, 4]);
    let mut other = Store::in_memory().unwrap();
    for counts in [(4, 0), (0, 4)] {
        let copied = store.copy_to(&mut other, &all).unwrap();
        assert_eq!((copied.records, copied.already), counts);
        named(&copied.unreadable);
    }
    let (of_campaign, unreadable) = store.records_of(&records[0].campaign).unwrap();
    assert_eq!(of_campaign.iter().map(|record| record.trial.index).collect::<Vec<_>>(), [0, 1, 3, 4]);
    named(&unreadable);
    // Its trial has no figures, and may be measured again.
    store.insert(&Record { id: crate::id::id(9, [3; 10]), ..records[2].clone() }).unwrap();
    other
        .each(&all, |record, json| assert_eq!(json, read.iter().find(|one| one.0 == record.trial.index).unwrap().1))
        .unwrap();
}

/// As by whoever hands a store on.
#[test]
fn a_row_that_cannot_be_read_keeps_none_of_the_others() {
    let mut store = Store::in_memory().unwrap();
    let records: Vec<Record> = (0..4).map(|index| sample::udp(index, Direction::Rx, 600, 400.0)).collect();
    for id in [&records[0].campaign, "2", "3"] {
        store.campaign_begin(&campaign(id)).unwrap();
    }
    records.iter().for_each(|record| store.insert(record).unwrap());
    sqlite(&store)
        .execute_batch(
            "DROP TRIGGER records_are_never_changed; UPDATE records SET trial_index = -5 WHERE trial_index = 1;
             UPDATE records SET id = CAST(x'ff' AS TEXT) WHERE trial_index = 2;
             UPDATE figures SET trial_index = -5 WHERE trial_index = 3;
             UPDATE campaigns SET planned = 9223372036854775807 WHERE id != '2'",
        )
        .unwrap();
    let told = |unreadable: &[StoreError], want: &[&str]| {
        let told: Vec<String> = unreadable.iter().map(ToString::to_string).collect();
        assert!(
            told.len() == want.len() && want.iter().all(|one| told.iter().any(|why| why.contains(one))),
            "{told:?}"
        );
    };
    let nameless = "the record without a name cannot be read";
    let of_campaign = |id: &str| format!("the campaign {id} cannot be read: its columns are damaged (");
    let all = Filter::default();
    let (listed, unreadable) = store.list(&all).unwrap();
    assert_eq!(listed.iter().map(|one| one.index).collect::<Vec<_>>(), [0, 1, 3]);
    told(&unreadable, &[nameless]);
    let (campaigns, unreadable) = store.campaigns(None, None).unwrap();
    assert_eq!(campaigns.iter().map(|one| one.campaign.id.as_str()).collect::<Vec<_>>(), ["2"]);
    told(&unreadable, &[&of_campaign("3"), &of_campaign(&records[0].campaign)]);
    told(&[store.campaign("3").unwrap_err()], &[&of_campaign("3")]);
    // A record itself says what its columns repeat.
    assert_eq!(store.record(&records[1].id).unwrap(), records[1]);
    let (read, unreadable) = store.records_of(&records[0].campaign).unwrap();
    assert_eq!(read.len(), 3);
    told(&unreadable, &[nameless]);
    assert!(matches!(store.called("last", 0), Ok(StoreEntry::Campaign(id)) if id == records[0].campaign));
    assert_eq!(store.last_campaign().unwrap().unwrap()[0], records[0].campaign);
    assert_eq!(store.finished_trials(&records[0].campaign).unwrap(), BTreeSet::from([0, 1, 3]));
    store.digits_of_records(&listed.iter().map(|one| one.id.as_str()).collect::<Vec<_>>()).unwrap();
    let mut other = Store::in_memory().unwrap();
    let copied = store.copy_to(&mut other, &all).unwrap();
    assert_eq!(copied.records, 3);
    told(&copied.unreadable, &[nameless, &of_campaign(&records[0].campaign)]);
    // What is derived is derived again.
    assert_eq!(store.points(Metric::find("throughput").unwrap(), &Selection::default(), 10).unwrap().len(), 3);
    let indices = store.observations(&Selection::default()).unwrap().into_iter().map(|one| one.index);
    assert_eq!(indices.collect::<BTreeSet<_>>(), BTreeSet::from([0, 1, 3]));
}

#[test]
fn a_campaign_is_carried_on() {
    let mut store = Store::in_memory().unwrap();
    for id in ["1", "2", "3"] {
        store.campaign_begin(&campaign(id)).unwrap();
    }
    store.campaign_finish("3", "2026-11-21T03:09:00Z").unwrap();
    assert_eq!(store.latest_unfinished("example", "netns:b", "netns:a").unwrap().unwrap().id, "2");
    assert_eq!(store.latest_unfinished("example", "netns:c", "netns:a").unwrap(), None);
    assert_eq!(store.campaign("3").unwrap().unwrap().finished_at.as_deref(), Some("2026-11-21T03:09:00Z"));
    assert_eq!(store.latest_campaign().unwrap().unwrap().id, "3");
    assert!(matches!(store.campaign_finish("4", ""), Err(StoreError::Unknown { .. })));
    assert_eq!(store.finished_trials("2").unwrap(), BTreeSet::new());
}

#[test]
fn an_older_store_gets_its_figures() {
    let folder = Folder::new("older");
    let path = folder.0.join("records.db");
    let records = [sample::udp(0, Direction::Rx, 600, 400.0), sample::rr(1, "64"), sample::failed(2)];
    let mut store = Store::open(&path).unwrap();
    records.iter().for_each(|record| store.insert(record).unwrap());
    let all = Selection::default();
    let want: Vec<Observation> = records.iter().map(Observation::of).collect();
    assert_eq!(store.observations(&all).unwrap(), want);
    let drop_them = "DROP TABLE figures; DROP TABLE around; PRAGMA user_version = 3;";
    sqlite(&store).execute_batch(drop_them).unwrap();
    drop(store);
    // One of them, an older linerate wrote in a way that this one does not understand.
    let strange = "INSERT INTO records SELECT '01ARZ3NDEKTSV4RRFFQ69G5FAV', campaign, plan, trial_index, repeat,
        workload, direction, started_at, target, host, throughput_bps, loss_ratio, transactions_per_s, failed,
        NULL, NULL, x'7b7d' FROM records LIMIT 1";
    Connection::open(&path).unwrap().execute(strange, []).unwrap();
    let store = Store::open(&path).unwrap();
    assert_eq!(store.observations(&all).unwrap(), want);
    let version: i64 = sqlite(&store).query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap();
    assert_eq!(version, SCHEMA);
    // Of another derivation: made again.
    sqlite(&store).execute_batch("DROP TABLE figures; CREATE TABLE figures (x)").unwrap();
    drop(store);
    assert_eq!(Store::open(&path).unwrap().observations(&all).unwrap(), want);
}

#[test]
fn observations_are_selected() {
    let mut store = Store::in_memory().unwrap();
    for index in 0..3 {
        store.insert(&sample::udp(index, Direction::Rx, 100, 100.0)).unwrap();
    }
    store.insert(&sample::udp(3, Direction::Tx, 200, 200.0)).unwrap();
    store.insert(&sample::ttcp(4, 0)).unwrap();
    let mut side_b = sample::ttcp(5, 0);
    side_b.trial.null_side = Some(crate::record::NullSide::B);
    store.insert(&side_b).unwrap();
    let check = |wanted: Selection, want: &[u32]| {
        let observed = store.observations(&wanted).unwrap();
        let found: Vec<u32> = observed.iter().map(|one| one.index).collect();
        assert_eq!(found, want, "{wanted:?}");
        let newest: Vec<&String> = observed.iter().rev().map(|one| &one.id).collect();
        assert_eq!(store.wanted(&wanted, usize::MAX).unwrap().iter().collect::<Vec<_>>(), newest, "{wanted:?}");
        let two = store.wanted(&wanted, 2).unwrap();
        assert_eq!(two.iter().collect::<Vec<_>>(), newest[..newest.len().min(2)], "{wanted:?}");
        let metric = crate::figure::Metric::find("throughput").unwrap();
        let points = want.iter().filter(|index| **index != 5).count();
        assert_eq!(
            store.points(metric, &wanted, usize::MAX).unwrap().len(),
            points,
            "side b of A/A trials is in no history"
        );
    };
    let none = Selection::default;
    let level = |name: &str, value: &str| Selection { levels: vec![(name.to_owned(), value.to_owned())], ..none() };
    check(none(), &[0, 1, 2, 3, 4, 5]);
    check(level("rate", "200M"), &[3]);
    check(level("workload", "tcp-stream"), &[4, 5]);
    check(level("target.kernel", "6.12.48"), &[0, 1, 2, 3, 4, 5]);
    check(level("rate", "7M"), &[]);
    let start = 1_795_230_000_000;
    check(Selection { since_ms: Some(start + 1000), until_ms: Some(start + 3000), ..none() }, &[1, 2]);
    check(Selection { campaign: Some("other".to_owned()), ..none() }, &[]);
}

#[test]
fn lists_are_filtered() {
    let mut store = Store::in_memory().unwrap();
    for index in 0..5 {
        store.insert(&sample::udp(index, Direction::Rx, 100, 100.0)).unwrap();
    }
    store.insert(&sample::ttcp(5, 0)).unwrap();
    let check = |filter: Filter, want: &[u32]| {
        let listed: Vec<u32> = store.list(&filter).unwrap().0.iter().map(|listed| listed.index).collect();
        let selected: Vec<u32> = store.select(&filter).unwrap().iter().map(|record| record.trial.index).collect();
        assert_eq!((&listed[..], &selected[..]), (want, want), "{filter:?}");
    };
    let none = Filter::default;
    check(none(), &[0, 1, 2, 3, 4, 5]);
    check(Filter { limit: Some(2), ..none() }, &[4, 5]);
    check(Filter { plan: Some("ttcp".to_owned()), ..none() }, &[5]);
    check(Filter { workload: Some(Workload::UdpStream), limit: Some(2), ..none() }, &[3, 4]);
    check(Filter { campaign: Some("x' OR 1=1 --".to_owned()), ..none() }, &[]);
    let start = 1_795_230_000_000;
    check(Filter { since_ms: Some(start + 3000), workload: Some(Workload::UdpStream), ..none() }, &[3, 4]);
}

#[track_caller]
fn check_refusal(path: &Path, contains: &str) {
    let error = Store::open(path).unwrap_err().to_string();
    assert!(error.contains(contains) && error.contains("--store"), "{error}");
    assert!(!error.contains('\n'), "{error}");
}

#[test]
fn what_is_no_store_is_left_alone() {
    let folder = Folder::new("refusals");
    let file = |name: &str| folder.0.join(name);
    check_refusal(&file("none/here/x.db"), "there is no folder");
    check_refusal(&folder.0, "it is a folder");
    check_refusal(Path::new("/proc/linerate.db"), "cannot open");
    std::fs::write(file("text"), "dear diary, ".repeat(500)).unwrap();
    check_refusal(&file("text"), "not a linerate store");
    assert_eq!(std::fs::read(file("text")).unwrap().len(), 6000);
    Connection::open(file("other.db")).unwrap().execute_batch("CREATE TABLE songs (name TEXT)").unwrap();
    let before = std::fs::read(file("other.db")).unwrap();
    check_refusal(&file("other.db"), "not a linerate store");
    assert_eq!(std::fs::read(file("other.db")).unwrap(), before);
    drop(Store::open(&file("later.db")).unwrap());
    Connection::open(file("later.db")).unwrap().pragma_update(None, "user_version", SCHEMA + 1).unwrap();
    check_refusal(&file("later.db"), "use a newer linerate");
    Connection::open(file("later.db")).unwrap().pragma_update(None, "user_version", 2).unwrap();
    check_refusal(&file("later.db"), "of an earlier linerate");
    let readonly = rusqlite::Error::SqliteFailure(ffi::Error::new(ffi::SQLITE_READONLY), None);
    assert!(said(&folder.0, readonly).to_string().contains("cannot be written"));
}

/// As by whoever hands a store on: the view of records never ends.
#[test]
fn no_view_stands_in_for_a_table() {
    let folder = Folder::new("views");
    let path = folder.0.join("records.db");
    let record = sample::udp(0, Direction::Rx, 600, 400.0);
    Store::open(&path).unwrap().insert(&record).unwrap();
    let forge = |sql: &str| Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    // One beside the tables is nobody's business.
    forge("CREATE VIEW mine AS SELECT id FROM records");
    let store = Store::open_existing(&path).unwrap();
    assert_eq!(store.record(&record.id).unwrap(), record);
    let error = store.database.rows("SELECT id FROM mine", Vec::new(), |_| Ok(())).unwrap_err().to_string();
    assert!(error.contains("access to view"), "{error}");
    drop(store);
    let views = ["records", "campaigns", "dictionary"].map(|name| {
        format!(
            "ALTER TABLE {name} RENAME TO other; CREATE VIEW {name} AS SELECT * FROM other,
             (WITH RECURSIVE n(k) AS (SELECT 1 UNION ALL SELECT k + 1 FROM n) SELECT k FROM n)"
        )
    });
    for view in views {
        let whole = std::fs::read(&path).unwrap();
        forge(&format!("DROP VIEW mine; {view}"));
        check_refusal(&path, "not a linerate store");
        assert!(matches!(Store::open_existing(&path), Err(StoreError::NotAStore(_))), "{view}");
        std::fs::write(&path, whole).unwrap();
    }
    assert_eq!(Store::open_existing(&path).unwrap().record(&record.id).unwrap(), record);
}

#[test]
fn a_full_disk_keeps_what_was_finished() {
    let folder = Folder::new("full");
    let mut store = Store::open(&folder.0.join("records.db")).unwrap();
    let pages: i64 = sqlite(&store).query_row("PRAGMA page_count", [], |row| row.get(0)).unwrap();
    // SQLite answers SQLITE_FULL at this limit, as it does when the file system has no room.
    sqlite(&store).pragma_update_and_check(None, "max_page_count", pages + 20, |_| Ok(())).unwrap();
    let mut kept = 0;
    let error = loop {
        match store.insert(&sample::udp(kept, Direction::Rx, 600, 400.0)) {
            Ok(()) => kept += 1,
            Err(error) => break error,
        }
    };
    assert!(kept > 2, "{error}");
    assert!(error.to_string().contains(&format!("{kept} finished trials of this campaign are kept")), "{error}");
    drop(store);
    let mut store = Store::open(&folder.0.join("records.db")).unwrap();
    assert_eq!(store.list(&Filter::default()).unwrap().0.len() as u32, kept);
    store.insert(&sample::udp(kept, Direction::Rx, 600, 400.0)).unwrap();
}

#[test]
fn a_lock_is_waited_for_and_then_named() {
    let folder = Folder::new("locked");
    let path = folder.0.join("records.db");
    let other = Store::open(&path).unwrap();
    let mut store = Store::open(&path).unwrap();
    sqlite(&store).busy_timeout(Duration::from_millis(50)).unwrap();
    sqlite(&other).execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.insert(&sample::ttcp(0, 0)).unwrap_err().to_string();
    assert!(error.contains("locked by another process"), "{error}");
    sqlite(&other).execute_batch("COMMIT").unwrap();
    store.insert(&sample::ttcp(0, 0)).unwrap();
}

#[test]
fn many_may_make_and_write_a_store_at_the_same_time() {
    let folder = Folder::new("many");
    let path = folder.0.join("records.db");
    let (writers, each) = (6, 8);
    std::thread::scope(|scope| {
        for writer in 0..writers {
            let path = &path;
            scope.spawn(move || {
                let mut store = Store::open(path).unwrap();
                for k in 0..each {
                    store.insert(&sample::udp(writer * each + k, Direction::Rx, 600, 400.0)).unwrap();
                }
            });
        }
    });
    assert_eq!(Store::open(&path).unwrap().list(&Filter::default()).unwrap().0.len() as u32, writers * each);
}

/// A store whose figures are those of some records, again and again: so many campaigns of a hundred trials.
fn of_campaigns(folder: &Folder, campaigns: u32) -> Store {
    let mut store = Store::open(&folder.0.join("records.db")).unwrap();
    for index in 0..100 {
        store.insert(&sample::udp(index, Direction::Rx, 100, 90.0 + f64::from(index % 10))).unwrap();
    }
    store.lengthen(campaigns.into()).unwrap();
    store
}

#[test]
fn a_history_reads_no_more_than_the_last_campaigns() {
    // A million records: LINERATE_CAMPAIGNS_KEPT=10000 cargo test --release -p linerate-results --lib history_reads -- --nocapture
    let campaigns = std::env::var("LINERATE_CAMPAIGNS_KEPT").ok().and_then(|text| text.parse().ok()).unwrap_or(20);
    let folder = Folder::new("history");
    let store = of_campaigns(&folder, campaigns);
    let metric = crate::figure::Metric::find("throughput").unwrap();
    let read = |last: usize| store.points(metric, &Selection::default(), last).unwrap();
    let begun = std::time::Instant::now();
    let points = read(1000);
    println!("{} of {} records in {:?}", points.len(), 100 * (campaigns + 1), begun.elapsed());
    let all = read(usize::MAX);
    assert_eq!(all.len() as u32, 100 * (campaigns + 1));
    assert!(all.is_sorted_by_key(|point| &point.campaign), "the oldest first");
    assert_eq!(read(3), all[all.len() - 300..]);
    assert_eq!(read(0), []);
    // By the index, whatever is asked.
    let (query, _) = figures::points_query(metric, &Selection::default(), Some(&["x", "y"].map(str::to_owned)));
    for (sql, lookups) in [(figures::BEFORE, 2), (&query, 1)] {
        let mut statement = sqlite(&store).prepare(&format!("EXPLAIN QUERY PLAN {sql}")).unwrap();
        for parameter in 1..=statement.parameter_count() {
            statement.raw_bind_parameter(parameter, "x").unwrap();
        }
        let plan: Vec<String> = statement.raw_query().mapped(|row| row.get(3)).collect::<Result<_, _>>().unwrap();
        let of_table: Vec<&String> = plan.iter().filter(|line| line.contains(" figures")).collect();
        let by_index = |line: &&String| line.starts_with("SEARCH") && line.contains("INDEX figures_by_campaign");
        assert!(of_table.len() == lookups && of_table.iter().all(by_index), "{sql}: {plan:#?}");
        assert!(!plan.iter().any(|line| line.contains("TEMP B-TREE")), "nothing is sorted: {sql}: {plan:#?}");
    }
}
