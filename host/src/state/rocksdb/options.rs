//! How the databases are set up.

use rocksdb::{
    BlockBasedIndexType, BlockBasedOptions, Cache, DBCompactionStyle, DBCompressionType, Options, UniversalCompactOptions,
    WriteBufferManager,
};

use tidemill_core::state::Space;

use super::overlay::Room;

/// Bits of the filter for each key: one absent key in a hundred is looked for in vain.
const FILTER_BITS: f64 = 10.0;
/// What is read from disk at once. Rows are small, and those that are used together lie anywhere.
const BLOCK_BYTES: usize = 4 << 10;
/// What one memtable takes at most, if there is memory enough.
const WRITE_BUFFER: usize = 64 << 20;
/// How many memtables a space may have, all but one on their way to files: with two, a worker would wait whenever both are full. What they take
/// together is bounded by the memory for all.
const WRITE_BUFFERS: i32 = 6;
/// How much of a database's files may be out of date before all are written anew, in percent of what is not.
const MOST_OUT_OF_DATE: i32 = 100;
/// How many files a database holds open.
const OPEN_FILES: i32 = 512;
/// The disk that is reserved for the list of a database's files.
const MANIFEST_BYTES: usize = 64 << 10;
/// Flushes and compactions at one time.
const BACKGROUND_JOBS: i32 = 2;

/// The memory that all databases share: what is cached of files, and what waits to be written, is one sum.
pub(super) struct Memory {
    cache: Cache,
    buffers: Buffers,
    write_buffer: usize,
    loading: usize,
    overlays: Room,
}

/// The memtables of all databases.
#[derive(Clone)]
pub(super) struct Buffers {
    manager: WriteBufferManager,
    /// From how many bytes on they are written to files.
    limit: usize,
}

impl Buffers {
    /// Whether they take much more than they may: they are filled faster than they are written to files, or there are many databases with
    /// little in each.
    pub(super) fn are_over(&self) -> bool {
        self.manager.get_usage() > self.limit / 2 * 3
    }
}

/// How many of a budget's bytes are for keys in use; the rest is for the databases. A key in use is worth more than its row in a cached
/// block: it needs no search and no decoding, and no neighbours lie around it.
pub(super) fn for_keys(budget: usize) -> usize {
    budget / 4 * 3
}

impl Memory {
    pub(super) fn new(budget: usize) -> Self {
        // While databases are being frozen, what changes lies beside what is being written to files.
        let (bytes, overlays) = (budget - for_keys(budget), (budget - for_keys(budget)) / 4);
        let cache = Cache::new_lru_cache(bytes - overlays);
        // More than this is written to files, but it stays in memory until that is done: there must be room for twice as much.
        let limit = bytes * 3 / 8;
        let manager = WriteBufferManager::new_write_buffer_manager_with_cache(limit, false, cache.clone());
        let buffers = Buffers { manager, limit };
        let (write_buffer, overlays) = (WRITE_BUFFER.min(bytes / 8), Room::new(overlays));
        // The memory for keys in use, of which there are none yet.
        Self { cache, buffers, write_buffer, overlays, loading: for_keys(budget) / 4 }
    }

    /// The memory for what is written while databases are being frozen.
    pub(super) fn overlays(&self) -> Room {
        self.overlays.clone()
    }

    /// What waits to be written to files.
    pub(super) fn buffers(&self) -> Buffers {
        self.buffers.clone()
    }

    /// The options of a database.
    pub(super) fn database(&self) -> Options {
        let mut options = Options::default();
        options.create_if_missing(true);
        options.create_missing_column_families(true);
        options.set_write_buffer_manager(&self.buffers.manager);
        options.set_max_background_jobs(BACKGROUND_JOBS);
        options.set_max_open_files(OPEN_FILES);
        options.set_stats_dump_period_sec(0);
        options.set_keep_log_file_num(1);
        // By default each database reserves 4 MiB of disk for its manifest, which has some KiB, as long as it is open.
        options.set_manifest_preallocation_size(MANIFEST_BYTES);
        options
    }

    /// How many bytes a restore may take to load rows.
    pub(super) fn for_loading(&self) -> usize {
        self.loading
    }

    /// The same, for tests.
    #[cfg(test)]
    pub(super) fn set_for_loading(&mut self, bytes: usize) {
        self.loading = bytes;
    }

    /// The options of a space of rows.
    pub(super) fn space(&self, space: Space) -> Options {
        let mut table = BlockBasedOptions::default();
        table.set_block_cache(&self.cache);
        table.set_block_size(BLOCK_BYTES);
        // Timers are only ever scanned.
        if space == Space::Keys {
            table.set_bloom_filter(FILTER_BITS, false);
        }
        // In small parts: whole, those of one file can be larger than all the cache, and would be read again for each row.
        table.set_index_type(BlockBasedIndexType::TwoLevelIndexSearch);
        table.set_partition_filters(space == Space::Keys);
        table.set_metadata_block_size(BLOCK_BYTES);
        table.set_pin_top_level_index_and_filter(true);
        table.set_cache_index_and_filter_blocks(true);
        table.set_cache_index_and_filter_blocks_with_high_priority(true);
        table.set_pin_l0_filter_and_index_blocks_in_cache(true);
        let mut options = Options::default();
        options.set_block_based_table_factory(&table);
        options.set_write_buffer_size(self.write_buffer);
        options.set_max_write_buffer_number(WRITE_BUFFERS);
        // Each row is written fewer times than with levels, at the price of disk.
        options.set_compaction_style(DBCompactionStyle::Universal);
        let mut universal = UniversalCompactOptions::default();
        universal.set_max_size_amplification_percent(MOST_OUT_OF_DATE);
        options.set_universal_compaction_options(&universal);
        // Most rows are in the last run. What is above will soon be written anew.
        options.set_compression_type(DBCompressionType::None);
        options.set_bottommost_compression_type(DBCompressionType::Lz4);
        options
    }
}
