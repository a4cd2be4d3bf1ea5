//! Under construction.
use std::path::PathBuf;
fn main() {
    tracing_subscriber::fmt().with_writer(std::io::stderr).json().flatten_event(true).init();
    let args: Vec<String> = std::env::args().collect();
    let spec = tidemill::spec::load(std::path::Path::new(&args[2]), &args[3..]).unwrap_or_else(|e| { eprintln!("{e}"); std::process::exit(2) });
    let options = tidemill::runtime::RunOptions { data_dir: PathBuf::from("tidemill-data").join(&spec.name), fresh: std::env::var("FRESH").is_ok(), control: Default::default() };
    let mut last = std::time::Instant::now();
    let r = tidemill::runtime::run(&spec, &options, &mut |p| { if last.elapsed().as_secs() >= 1 { last = std::time::Instant::now(); tracing::info!(records_in = p.records_in, checkpoint = p.checkpoint.map_or(0, |c| c.id), "progress"); } });
    match r { Ok(o) => eprintln!("{o:#?}"), Err(e) => { eprintln!("error: {}", e.chain()); std::process::exit(1) } }
}
