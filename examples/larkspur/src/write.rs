//! The files of the day.
#![expect(clippy::indexing_slicing, reason = "uploads name baskets by position and files below their number")]

use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::Path;

use crate::basket::Basket;
use crate::counts::SKUS;
use crate::upload::{FILES, Upload};

/// Writes `pos-0.jsonl` to `pos-5.jsonl` in the order of `uploads`.
pub(crate) fn files(dir: &Path, baskets: &[Basket], uploads: &[Upload]) -> io::Result<()> {
    fs::create_dir_all(dir).map_err(|error| named(&error, dir))?;
    for file in 0..FILES {
        write(&dir.join(format!("pos-{file}.jsonl")), |out| {
            for upload in uploads.iter().filter(|upload| upload.file == file) {
                basket(out, upload, &baskets[upload.basket])?;
            }
            Ok(())
        })?;
    }
    Ok(())
}

/// Writes `opening_stock.csv` from the openings by key.
pub(crate) fn opening_stock(dir: &Path, openings: &[i32]) -> io::Result<()> {
    write(&dir.join("opening_stock.csv"), |out| {
        writeln!(out, "store_id,sku,opening")?;
        for (key, opening) in openings.iter().enumerate() {
            writeln!(out, "{},SKU-{:05},{opening}", key / SKUS + 1, key % SKUS + 1)?;
        }
        Ok(())
    })
}

fn basket(out: &mut impl Write, upload: &Upload, basket: &Basket) -> io::Result<()> {
    let (store, till, date) = (basket.store + 1, basket.till + 1, 15 + basket.date);
    write!(out, r#"{{"basket_id":"B{store:04}-{till}-{:07}","store_id":{store},"till_id":{till},"#, upload.basket)?;
    write!(out, r#""business_date":"2026-08-{date}","event_ts":{},"uploaded_at":{},"lines":["#, basket.event_ts, upload.uploaded_at)?;
    for (place, line) in basket.lines.iter().enumerate() {
        let comma = if place == 0 { "" } else { "," };
        write!(out, r#"{comma}{{"sku":"SKU-{:05}","qty":{}}}"#, line.sku + 1, line.qty)?;
    }
    writeln!(out, "]}}")
}

fn write(path: &Path, content: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>) -> io::Result<()> {
    File::create(path)
        .map(BufWriter::new)
        .and_then(|mut out| content(&mut out).and_then(|()| out.flush()))
        .map_err(|error| named(&error, path))
}

fn named(error: &io::Error, path: &Path) -> io::Error {
    io::Error::new(error.kind(), format!("writing {}: {error}", path.display()))
}
