//! Numbers in the documentation equal their sources: tables of speed the measurements of `scripts/speed` in
//! `docs/speed`, tables of runs what `report` prints of `docs/runs`, tables of scale what `scripts/scale` prints,
//! the page of the bundled demo its `demo.json`; in other tables, columns of differences are recomputed.

use crate::run::prelude::*;

fn text(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect(name)
}

/// A table's header and rows.
type Table = (Vec<String>, Vec<Vec<String>>);

fn tables(page: &str) -> Vec<Table> {
    let text = text(page);
    let lines: Vec<&str> = text.lines().collect();
    let cells = |line: &&str| -> Vec<String> {
        line.trim().trim_matches('|').split('|').map(|cell| cell.trim().replace("**", "")).collect()
    };
    let blocks = lines.split(|line| !line.starts_with('|')).filter(|block| block.len() > 2);
    blocks.map(|block| (cells(&block[0]), block[2..].iter().map(cells).collect())).collect()
}

/// The number at the start of a cell, and half a unit of its last digit: the rounding error.
fn number(cell: &str) -> Option<(f64, f64)> {
    let end = cell.find(|c: char| !c.is_ascii_digit() && !".+-".contains(c)).unwrap_or(cell.len());
    let digits = &cell[..end];
    let decimals = digits.split_once('.').map_or(0, |(_, decimals)| decimals.len());
    Some((digits.parse().ok()?, 0.5 * 0.1_f64.powi(decimals as i32)))
}

/// Whether `difference` can be `minuend - subtrahend`, given that each was rounded.
fn is_difference(difference: &str, minuend: &str, subtrahend: &str) -> bool {
    let all = [difference, minuend, subtrahend]
        .map(|cell| number(cell).unwrap_or_else(|| panic!("no number: {cell}")));
    let [(d, d_half), (a, a_half), (b, b_half)] = all;
    (a - b - d).abs() <= a_half + b_half + d_half + 1e-9
}

#[test]
fn columns_made_of_others_are_what_they_make() {
    let mut checked = 0;
    let mut check = |adds_up: bool, page: &str, row: &[String]| {
        assert!(adds_up, "docs/{page}: {row:?} does not add up");
        checked += 1;
    };
    for page in ["real-photographs.md", "does-order-matter.md", "scenes.md"] {
        for (header, rows) in tables(&format!("docs/{page}")) {
            let at = |name: &str| header.iter().position(|title| title == name);
            for row in &rows {
                for column in (2..row.len()).filter(|column| header[*column] == "difference") {
                    check(is_difference(&row[column], &row[column - 2], &row[column - 1]), page, row);
                }
            }
            // A change is relative to the last "Normal" row above, the probe as trained.
            if let (Some(top), Some(change)) = (at("Top-1 (%)"), at("Change (points)")) {
                let mut normal = "";
                for row in &rows {
                    if row[1] == "Normal" {
                        normal = &row[top];
                    } else {
                        check(is_difference(&row[change], &row[top], normal), page, row);
                    }
                }
            }
        }
    }
    assert!(checked > 30, "{checked} rows");
}

/// A number to three significant digits, with at most two decimals.
fn three_digits(value: f64) -> String {
    let digits = if value >= 99.95 {
        0
    } else if value >= 9.995 {
        1
    } else {
        2
    };
    format!("{value:.digits$}")
}

/// A time given in seconds, as text: in seconds from 1 s on, otherwise in milliseconds.
fn time(seconds: &Value) -> String {
    let seconds = seconds.as_f64().expect("seconds");
    if seconds >= 1.0 {
        format!("{} s", three_digits(seconds))
    } else {
        format!("{} ms", three_digits(1e3 * seconds))
    }
}

/// The JSON objects of a file in `docs/speed`, which holds one per line or a list.
fn measured(name: &str) -> Vec<Value> {
    let text = text(&format!("docs/speed/{name}"));
    let parse = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
    match text.trim_start().starts_with('[') {
        true => parse(&text).as_array().expect("a list").clone(),
        false => text.lines().map(parse).collect(),
    }
}

/// The value that `ssmprobe bench` measured under a name.
fn figure<'a>(figures: &'a [Value], name: &str) -> &'a Value {
    &figures.iter().find(|figure| figure["name"] == name).unwrap_or_else(|| panic!("no {name}"))["value"]
}

fn pytorch_table(name: &str) -> String {
    let row = |row: Value| {
        let star = if row["note"] == "not asked for" { " *" } else { "" };
        let [name, ratio] =
            [row["name"].as_str().expect("a name"), &three_digits(row["ratio"].as_f64().expect("a ratio"))];
        format!("| `{name}`{star} | {} | {} | {ratio} |\n", time(&row["ours"]), time(&row["pytorch"]))
    };
    let head = "| work | ours | PyTorch | PyTorch's time over ours |\n|---|---:|---:|---:|\n";
    head.to_owned() + &measured(name).into_iter().map(row).collect::<String>()
}

/// Times on an H200, beside those of PyTorch on it where they were measured.
fn gpu_table() -> String {
    let kept = serde_json::from_str::<Value>(&text("docs/speed/h200.json")).expect("JSON");
    let row = |row: &Value| {
        let sides =
            ["eager", "compiled"].map(|side| (row[side].as_f64(), row["earlier"].to_string().contains(side)));
        let said = sides.map(|(seconds, earlier)| match seconds {
            Some(seconds) => time(&seconds.into()) + if earlier { " *" } else { "" },
            None => String::new(),
        });
        let faster = sides.iter().filter_map(|side| side.0).reduce(f64::min);
        let ratio = faster
            .map(|faster| three_digits(faster / row["ours"].as_f64().expect("seconds")))
            .unwrap_or_default();
        let [eager, compiled] = said;
        format!(
            "| `{}` | {} | {eager} | {compiled} | {ratio} |\n",
            row["name"].as_str().expect("a name"),
            time(&row["ours"])
        )
    };
    let head = "| work | ours | PyTorch, eager | compiled | the faster one's time over ours |\n|---|---:|---:|---:|---:|\n";
    head.to_owned() + &kept["works"].as_array().expect("works").iter().map(row).collect::<String>()
}

fn heads_table() -> String {
    let figures = measured("heads.json");
    let names = figures
        .iter()
        .filter_map(|figure| figure["name"].as_str()?.strip_prefix("head/")?.strip_suffix("/step"));
    let row = |name: &str| {
        let of = |what: &str| figure(&figures, &format!("head/{name}/{what}"));
        let [ratio, memory] = ["vs-gap", "memory"].map(|what| of(what).as_f64().expect("a number"));
        format!("| {name} | {} | {ratio:.2} | {memory:.0} MiB |\n", time(of("step")))
    };
    let head = "| head | step | against GAP | peak memory |\n|---|---:|---:|---:|\n".to_owned();
    let all = format!("| all in one step | {} | | |\n", time(figure(&figures, "heads/joint/step")));
    head + &names.map(row).collect::<String>() + &all
}

/// Costs of Sinkhorn probes and of look-ups by the number of tokens.
fn token_counts_table() -> String {
    let figures = ["sinkhorn.json", "lookup.json"].map(measured).concat();
    let row = |(n, pixels): (usize, usize)| {
        let [step, look] =
            ["sinkhorn", "lookup/sinkhorn"].map(|what| time(figure(&figures, &format!("{what}/n-{n}"))));
        let memory = figure(&figures, &format!("sinkhorn/n-{n}/memory")).as_f64().expect("MiB");
        format!("| {n} | {pixels} px | {step} | {memory:.0} MiB | {look} |\n")
    };
    let sizes = [(196, 224), (256, 256), (576, 384), (1024, 512), (2304, 768), (4096, 1024)];
    let head =
        "| N | image of | step of 8 | peak memory | look-up |\n|---:|---:|---:|---:|---:|\n".to_owned();
    head + &sizes.map(row).concat()
}

/// Times of order tests, edits of an order and searches for similar images, beside their limits in seconds, 0 for none.
fn orders_table() -> String {
    let figures = measured("orders.json");
    let row = |(what, name, limit): (&str, String, f64)| {
        let seconds = figure(&figures, &name).as_f64().expect("seconds");
        assert!(limit == 0.0 || seconds < limit, "{name}: {seconds} s are more than {limit}");
        let limit = if limit > 0.0 { format!("{:.0} ms", 1e3 * limit) } else { String::new() };
        format!("| {what} | {} | {limit} |\n", time(figure(&figures, &name)))
    };
    let tests = [("raster", "one sweep"), ("vmamba", "four sweeps"), ("sinkhorn", "behind Sinkhorn")];
    let tested = |(sharing, memory, limit): (&'static str, &'static str, f64)| {
        tests.map(|(head, sweeps)| {
            let what = format!("order test, {sweeps}, {memory}");
            (what, format!("order test/{head}, {sharing}"), limit)
        })
    };
    let tests = [("shared", "one memory", 0.01), ("channel", "one a channel", 0.06)].map(tested).concat();
    let edits = [("shared", "one memory"), ("channel", "one a channel")].map(|(sharing, memory)| {
        let what = format!("edit of an order of 1024 tokens, {memory}");
        (what, format!("edit of an order/1024 tokens, {sharing}"), 0.016)
    });
    let alike = ["cosine", "spearman"].map(|id| {
        let all = [
            ("images like one of 50,000", "nearest", "", 0.05),
            ("the same, or like its mirror image", "nearest or flipped", "", 0.05),
            ("the same, compared one by one", "nearest", ", peer", 0.0),
            ("vectors and map made ready", "made ready with its map", "", 0.0),
        ];
        all.map(|(what, name, end, limit)| {
            (format!("{what}, {id}"), format!("50,000 images of 196 tokens/{name}, {id}{end}"), limit)
        })
    });
    let rows = tests.into_iter().chain(edits).chain(alike.concat());
    let head = "| work | time | to cost less than |\n|---|---:|---:|\n".to_owned();
    head + &rows.map(|(what, name, limit)| row((&what, name, limit))).collect::<String>()
}

fn extraction_table() -> String {
    let row = |run: Value| {
        let data = match run["data"].as_str() {
            Some("imagenette10") => "Imagenette, 224 px",
            Some("cub50/CUB_200_2011") => "CUB-200, 50 species, short side 240 px",
            other => panic!("{other:?} has no name in the page"),
        };
        let seconds = run["seconds"].as_f64().expect("seconds");
        let share = |what: &str| 100.0 * run["spent"][what].as_f64().expect("seconds") / seconds;
        let (images, threads) = (&run["images"], &run["threads"]);
        let rate = images.as_f64().expect("images") / seconds;
        let [starved, blocked] = ["starved", "blocked"].map(share);
        format!("| {data} | {images} | {threads} | {rate:.0} | {starved:.2} % | {blocked:.2} % |\n")
    };
    let head = "| photographs | images | threads | a second | waited for images | for the disk |\n|---|---:|---:|---:|---:|---:|\n";
    head.to_owned() + &measured("extract.jsonl").into_iter().map(row).collect::<String>()
}

#[test]
fn the_page_of_speed_says_what_was_measured() {
    let page = text("docs/speed.md");
    let tables = [
        pytorch_table("pytorch.jsonl"),
        pytorch_table("pytorch-one-thread.jsonl"),
        heads_table(),
        token_counts_table(),
        extraction_table(),
        orders_table(),
        gpu_table(),
    ];
    for table in tables {
        assert!(page.contains(&table), "docs/speed.md lacks this table of docs/speed:\n{table}");
    }
    let machine = serde_json::from_str::<Value>(&text("docs/speed/machine.json")).expect("JSON");
    let [processor, date, threads] =
        ["processor", "date", "threads"].map(|key| machine[key].to_string().replace('"', ""));
    let said = format!("{threads} threads of an {processor}");
    assert!(page.contains(&said) && page.contains(&date), "docs/speed.md does not say: {said}, {date}");
}

#[test]
fn the_page_of_scale_says_what_its_script_prints() {
    let root = root();
    let Ok(output) = Command::new("python3").arg(root.join("scripts/scale")).output() else {
        return skip::missing("there is no python3");
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).expect("text");
    let page = text("docs/scale.md");
    let tables: Vec<&str> = printed.split("\n\n").filter(|table| !table.trim().is_empty()).collect();
    assert_eq!(tables.len(), 6, "{printed}");
    for table in tables {
        assert!(page.contains(table.trim()), "docs/scale.md lacks this table:\n{table}");
    }
}

#[test]
fn the_page_of_the_demo_says_what_its_json_says() {
    let demo: Value = serde_json::from_str(&text("assets/demo/demo.json")).expect("JSON");
    let page = text("assets/demo/README.md").split_whitespace().collect::<Vec<_>>().join(" ");
    let heads = |backbone: usize| demo["backbones"][backbone]["heads"].as_array().expect("heads").clone();
    let accuracy = |head: &Value| head["val"].as_f64().expect("an accuracy");
    let of = |backbone: usize, id: &str| {
        accuracy(heads(backbone).iter().find(|head| head["id"] == id).unwrap_or_else(|| panic!("no {id}")))
    };
    let others = || heads(1).into_iter().filter(|head| head["id"] != "bi-gru").map(|head| accuracy(&head));
    let (lowest, highest) = (others().fold(100.0, f64::min), others().fold(0.0, f64::max));
    for said in [
        format!(
            "of {} scenes it never saw, the mean of the tokens tells {:.0} %, raster S4 {:.0} %, Sinkhorn S4 {:.0} %, \
             Bi-GRU {:.0} %",
            demo["scenes"]["val"],
            of(0, "gap"),
            of(0, "raster"),
            of(0, "sinkhorn"),
            of(0, "bi-gru"),
        ),
        format!("it hardly does: {lowest:.0} to {highest:.0} %, Bi-GRU {:.0} %", of(1, "bi-gru")),
    ] {
        assert!(page.contains(&said), "assets/demo/README.md does not say: {said}");
    }
}

/// These verbs refuse a folder that exists, so a page's command must name a new run and none of `docs/runs`.
#[test]
fn no_command_of_a_page_writes_into_a_run_that_is_there() {
    let mut seen = 0;
    for entry in fs::read_dir(root().join("docs")).expect("pages").flatten() {
        let path = entry.path();
        let text = if path.is_file() { fs::read_to_string(&path).expect("a page") } else { String::new() };
        let writes = |line: &&str| {
            ["train", "eval", "sweep"].iter().any(|verb| line.contains(&format!("run {verb} ")))
        };
        for line in text.lines().filter(writes) {
            assert!(!line.contains("docs/runs/"), "{}: {line}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 10, "{seen} commands");
}

/// On these pages, a table of a run in `docs/runs` follows the command that prints it.
#[test]
fn tables_of_runs_are_those_the_runs_make() {
    let mut compared = 0;
    for page in ["real-photographs.md", "does-order-matter.md", "scenes.md", "claims.md"] {
        let text = text(&format!("docs/{page}"));
        let mut lines = text.lines();
        while let Some(command) = lines.find(|line| line.starts_with("./scripts/run report docs/runs/")) {
            let words: Vec<&str> = command.split_whitespace().skip(1).collect();
            let made = done(program().current_dir(root()).args(words));
            let rows = |line: &&str| line.starts_with(['|', '*']);
            let made: Vec<&str> = made.lines().filter(rows).collect();
            let said: Vec<&str> = lines.by_ref().filter(rows).take(made.len()).collect();
            assert!(said == made, "docs/{page} has another table than `{command}` prints");
            compared += 1;
        }
    }
    assert!(compared >= 6, "{compared} tables");
}
