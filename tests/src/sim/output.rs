//! What must be true of the output all the time: whatever is visible is expected, and there once.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde_json::Value;
use tidemill_core::disk::Disk;

use super::schedule::{FOLDERS, Schedule};
use crate::sim_disk::SimDisk;

impl Schedule<'_> {
    /// Whatever is visible is expected and there once; at the end it is everything. After a start from a savepoint in a new incarnation that is
    /// true of its output, which with that of the incarnations before is everything.
    pub(super) fn check(&self, finished: bool) -> Result<(), String> {
        if self.drains {
            return Ok(());
        }
        let alerts = self.visible(0)?;
        let distinct: BTreeSet<_> = alerts.iter().cloned().collect();
        if distinct.len() != alerts.len() {
            return Err(format!("{} alerts are visible twice", alerts.len() - distinct.len()));
        }
        if let Some(alert) = distinct.difference(&self.day.alerts).next() {
            return Err(format!("unexpected alert {alert}"));
        }
        let late = counted(&self.visible(1)?);
        if let Some((line, times)) = late.iter().find(|(line, times)| self.day.late.get(*line).is_none_or(|expected| *times > expected)) {
            return Err(format!("late line {line} is visible {times} times"));
        }
        let dead = ids(&self.visible(2)?);
        let bad: BTreeSet<String> = dead.iter().cloned().collect();
        if bad.len() != dead.len() || !bad.is_subset(&self.day.bad) {
            return Err(format!("the dead letters are {dead:?} of {:?}", self.day.bad));
        }
        if finished { self.check_complete(distinct, &late, bad) } else { Ok(()) }
    }

    fn check_complete(
        &self,
        mut alerts: BTreeSet<String>,
        late: &BTreeMap<String, usize>,
        mut bad: BTreeSet<String>,
    ) -> Result<(), String> {
        let [alerts_before, late_before, bad_before] = &self.before;
        alerts.extend(alerts_before.iter().cloned());
        bad.extend(ids(bad_before));
        let late_before = counted(late_before);
        let seen = |line: &String| late.get(line).copied().unwrap_or(0) + late_before.get(line).copied().unwrap_or(0);
        let missing: usize = self.day.late.iter().map(|(line, expected)| expected.saturating_sub(seen(line))).sum();
        if !self.day.alerts.is_subset(&alerts) || missing > 0 || bad != self.day.bad {
            let alerts = self.day.alerts.difference(&alerts).count();
            let bad = self.day.bad.difference(&bad).count();
            return Err(format!("at the end {alerts} alerts, {missing} late lines and {bad} dead letters are missing"));
        }
        Ok(())
    }

    /// What readers have seen in an output folder, of this incarnation.
    pub(super) fn visible(&self, output: usize) -> Result<Vec<String>, String> {
        let dir = FOLDERS.get(output).map_or("", |dir| *dir);
        let mut rows = rows(&self.disk, Path::new(dir))?;
        rows.extend(self.taken.get(output).into_iter().flatten().cloned());
        Ok(rows)
    }
}

fn counted(lines: &[String]) -> BTreeMap<String, usize> {
    let mut counted = BTreeMap::new();
    for line in lines {
        *counted.entry(line.clone()).or_default() += 1;
    }
    counted
}

/// The ids of the baskets in dead letters.
fn ids(rows: &[String]) -> Vec<String> {
    let value = |row: &String| serde_json::from_str::<Value>(row).ok()?.get("value")?.as_str().map(str::to_owned);
    let id = |row: &String| serde_json::from_str::<Value>(&value(row)?).ok()?.get("basket_id")?.as_str().map(str::to_owned);
    rows.iter().filter_map(id).collect()
}

/// The rows in the visible files of a folder, without the watermark that a late line saw.
pub(super) fn rows(disk: &SimDisk, dir: &Path) -> Result<Vec<String>, String> {
    let mut rows = Vec::new();
    let paths = disk.list(dir).map_err(|error| error.to_string())?;
    for path in paths.iter().filter(|path| is_visible(path)) {
        let bytes = disk.read(path).map_err(|error| error.to_string())?;
        for line in String::from_utf8_lossy(&bytes).lines() {
            let broken = |what: &dyn std::fmt::Display| format!("{}: {what}: {line}", path.display());
            let mut row: Value = serde_json::from_str(line).map_err(|error| broken(&error))?;
            row.as_object_mut().ok_or_else(|| broken(&"not an object"))?.remove("watermark");
            rows.push(row.to_string());
        }
    }
    Ok(rows)
}

pub(super) fn is_visible(path: &Path) -> bool {
    path.file_name().is_some_and(|name| !name.to_string_lossy().starts_with('.'))
}
