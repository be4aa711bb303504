//! `jaxrs-compile pack`: minimalloc's CSV in, with the column `offset` out.

use crate::{Failure, Outcome, check_output, program, write_output};
use jaxrs_plan::pack::{Effort, Fault, Options, Problem, Row, check};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A packing problem.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// CSV with columns `id`, `lower`, `upper` (exclusive), `size`, and maybe `alignment`,
    /// `offset` (fixed) and `gaps`; `-` reads standard input.
    problem: PathBuf,
    /// Stop at the first packing that fits; without it the least height is sought.
    #[arg(long)]
    capacity: Option<u64>,
    /// Longest time to search, in seconds (`10s` or `10`).
    #[arg(long, default_value = "10s", value_parser = seconds)]
    time_limit: f64,
    /// Where to write the columns with offsets; standard output gets the figures alone.
    #[arg(short)]
    output: Option<PathBuf>,
}

/// Packs and prints height, lower bound, whether optimal, and seconds.
pub(crate) fn run(args: &Args) -> Outcome {
    check_output(args.output.as_deref())?;
    let shown = program::shown(&args.problem);
    let text = program::read(&args.problem)?;
    let table =
        Table::read(&text).map_err(|message| Failure::program(format!("{shown}: {message}")))?;
    let bound = table.problem.lower_bound();
    if let Some(capacity) = args.capacity.filter(|&c| c < bound) {
        let why = if table.problem.loads().iter().any(|load| load.1 == bound) {
            "are live at one time"
        } else {
            "is where a row with a fixed offset ends"
        };
        return Err(Failure::program(format!(
            "{shown}: no packing fits into {capacity}: {bound} {why}"
        )));
    }
    let begin = Instant::now();
    let solution = table.problem.solve_with(&Options {
        effort: Effort { comparisons: u64::MAX },
        time_limit: Some(Duration::from_secs_f64(args.time_limit.min(1e9))),
        capacity: args.capacity,
        ..Options::default()
    });
    let seconds = begin.elapsed().as_secs_f64();
    if let Err(fault) = check(&table.problem, &solution.offsets) {
        return Err(Failure::program(format!("{shown}: the packer is at fault: {fault}")));
    }
    if let Some(capacity) = args.capacity.filter(|&c| c < solution.proved) {
        return Err(Failure::program(format!(
            "{shown}: no packing fits into {capacity}: the search tried all of them"
        )));
    }
    let figures = format!(
        "height {}, lower bound {}, {}, {seconds:.3} s ({})\n",
        solution.height,
        solution.proved,
        if solution.is_optimal() { "optimal" } else { "not proved optimal" },
        solution.solver
    );
    if let Some(output) = &args.output {
        write_output(Some(output), &table.with_offsets(&solution.offsets))?;
    }
    if args.output.as_ref().is_some_and(|output| output.as_os_str() == "-") {
        // Standard output holds the table alone.
        eprint!("{figures}");
    } else {
        write_output(None, &figures)?;
    }
    match args.capacity {
        Some(capacity) if solution.height > capacity => Err(Failure::program(format!(
            "{shown}: no packing within {capacity} was found; the lowest is {}",
            solution.height
        ))),
        _ => Ok(()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('s').unwrap_or(text);
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value),
        _ => Err(format!("{text} is not a time; write 10s")),
    }
}

struct Table {
    header: csv::StringRecord,
    records: Vec<csv::StringRecord>,
    problem: Problem,
}

impl Table {
    fn read(text: &[u8]) -> Result<Table, String> {
        let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text);
        let header = reader.headers().map_err(|e| e.to_string())?.clone();
        let column = |names: &[&str]| header.iter().position(|h| names.contains(&h));
        let need = |names: &[&str]| {
            column(names).ok_or_else(|| format!("line 1: there is no column {}", names[0]))
        };
        let id = need(&["id", "buffer", "buffer_id"])?;
        let lower = need(&["lower", "begin", "start"])?;
        let upper = need(&["upper", "end"])?;
        // `end` is the last time of life, `upper` the first after it.
        let inclusive = header.get(upper) == Some("end");
        let size = need(&["size"])?;
        let (alignment, offset, gaps) =
            (column(&["alignment"]), column(&["offset"]), column(&["gaps"]));
        let (mut records, mut rows, mut lines) = (Vec::new(), Vec::new(), Vec::new());
        let mut ids = std::collections::HashMap::new();
        for record in reader.records() {
            let record = record.map_err(|e| e.to_string())?;
            let line = record.position().map_or(0, csv::Position::line);
            let number = |at: usize| {
                let field = record.get(at).unwrap_or("");
                field.parse::<u64>().map_err(|_| {
                    let name = header.get(at).unwrap_or("");
                    format!("line {line}: {name} is \"{field}\", expected a number from 0 on")
                })
            };
            let name = record.get(id).unwrap_or("").to_string();
            if let Some(first) = ids.insert(name.clone(), line) {
                return Err(format!("line {line}: id {name} stands on line {first}, too"));
            }
            let row = Row {
                lower: number(lower)?,
                upper: number(upper)?.saturating_add(u64::from(inclusive)),
                size: number(size)?,
                alignment: alignment.map_or(Ok(1), number)?,
                gaps: gaps.map_or(Ok(Vec::new()), |at| {
                    read_gaps(record.get(at).unwrap_or(""), inclusive)
                        .ok_or_else(|| format!("line {line}: gaps are written \"lo-hi lo-hi\""))
                })?,
                offset: match offset.map(|at| record.get(at).unwrap_or("")) {
                    None | Some("" | "-1") => None,
                    Some(_) => offset.map(number).transpose()?,
                },
            };
            if row.lower >= row.upper {
                return Err(format!(
                    "line {line}: {name} is live from {} to {}, for no time",
                    row.lower, row.upper
                ));
            }
            let (first, last) = (row.gaps.first(), row.gaps.last());
            if first.is_some_and(|g| g.0 < row.lower) || last.is_some_and(|g| g.1 > row.upper) {
                return Err(format!(
                    "line {line}: {name} is live from {} to {}, its gaps lie outside",
                    row.lower, row.upper
                ));
            }
            if row.live().next().is_none() {
                return Err(format!("line {line}: {name} is live for no time but gaps"));
            }
            if row.alignment == 0 {
                return Err(format!("line {line}: alignment is 0, expected 1 or more"));
            }
            rows.push(row);
            lines.push(line);
            records.push(record);
        }
        let total = rows.iter().try_fold(0u64, |sum: u64, row| {
            let end = row.offset.unwrap_or(0).checked_add(row.size)?;
            sum.checked_add(end)?.checked_add(row.alignment)
        });
        if total.is_none_or(|t| t > 1 << 62) {
            return Err("the sizes add up to more than 2^62".into());
        }
        if rows.is_empty() {
            return Err("there are no rows".into());
        }
        if let Some((a, b)) = fixed_overlap(&rows) {
            return Err(format!(
                "lines {} and {}: the rows are live together and their fixed offsets overlap",
                lines[a], lines[b]
            ));
        }
        Ok(Table { header, records, problem: Problem { rows } })
    }

    fn with_offsets(&self, offsets: &[u64]) -> String {
        let given = self.header.iter().position(|h| h == "offset");
        let mut writer = csv::Writer::from_writer(Vec::new());
        let mut write = |fields: Vec<String>| {
            writer.write_record(fields).expect("writing to memory");
        };
        let mut header: Vec<String> = self.header.iter().map(Into::into).collect();
        if given.is_none() {
            header.push("offset".into());
        }
        write(header);
        for (record, offset) in self.records.iter().zip(offsets) {
            let mut fields: Vec<String> = record.iter().map(Into::into).collect();
            match given {
                Some(at) => fields[at] = offset.to_string(),
                None => fields.push(offset.to_string()),
            }
            write(fields);
        }
        String::from_utf8(writer.into_inner().expect("writing to memory")).expect("was text")
    }
}

/// Two rows whose given offsets contradict each other.
fn fixed_overlap(rows: &[Row]) -> Option<(usize, usize)> {
    let fixed: Vec<usize> = (0..rows.len()).filter(|&i| rows[i].offset.is_some()).collect();
    let offsets: Vec<u64> = fixed.iter().filter_map(|&i| rows[i].offset).collect();
    // Whether an offset is aligned is another matter.
    let alone = |&i: &usize| Row { alignment: 1, ..rows[i].clone() };
    let problem = Problem { rows: fixed.iter().map(alone).collect() };
    match check(&problem, &offsets) {
        Err(Fault::Overlap(a, b)) => Some((fixed[a.min(b)], fixed[a.max(b)])),
        Err(_) | Ok(_) => None,
    }
}

fn read_gaps(text: &str, inclusive: bool) -> Option<Vec<(u64, u64)>> {
    let mut gaps: Vec<(u64, u64)> = Vec::new();
    for gap in text.split_whitespace() {
        let (low, high) = gap.split_once('-')?;
        let high = high.parse::<u64>().ok()?.saturating_add(u64::from(inclusive));
        gaps.push((low.parse().ok()?, high));
    }
    let ascending = gaps.iter().all(|g| g.0 < g.1) && gaps.windows(2).all(|w| w[0].1 <= w[1].0);
    ascending.then_some(gaps)
}
