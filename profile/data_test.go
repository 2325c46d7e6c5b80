package profile

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"stweaver/ir"
)

const sharedData = "../../shared/data"

// dataFile returns the path of a file of the shared data, or skips the test.
func dataFile(t testing.TB, name string) string {
	t.Helper()
	path := filepath.Join(sharedData, name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("shared data is not here: %v", err)
	}
	return path
}

// mustRead reads a profile and checks the invariants of what comes out.
func mustRead(t testing.TB, path string) *ir.Trace {
	t.Helper()
	tr, err := ReadFile(path, DefaultOptions())
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.Check(); err != nil {
		t.Fatal(err)
	}
	return tr
}

// seen counts the requests whose allocation is in the recording.
func seen(t *ir.Trace) int {
	n := 0
	for i := range t.Requests {
		if t.Requests[i].Alloc != ir.Before {
			n++
		}
	}
	return n
}

// TestData pins what the files' own documentation says of them. reserved -1: unknown;
// marks counts iteration marks with a number.
func TestData(t *testing.T) {
	type want struct {
		file             string
		format           string
		requests         int // allocations in the recording
		lb               ir.Bytes
		streams          int
		apart            ir.Bytes // sum of the streams' peaks, 0: as lb
		reserved         ir.Bytes
		iterations       int
		before, resident int // frees of blocks allocated earlier, and ghosts
	}
	const MiB = 1 << 20
	snap := func(file string, requests int, lb, reserved ir.Bytes) want {
		return want{"snapshots/" + file + ".pickle", "torch-snapshot", requests, lb, 1, 0, reserved, 0, 0, 0}
	}
	late := func(w want, before, resident int) want { w.before, w.resident = before, resident; return w }
	phantom := func(file string, requests, streams int, lb, apart, reserved ir.Bytes) want {
		return want{file + ".pickle.gz", "torch-snapshot", requests, lb, streams, apart, reserved, 0, 0, 0}
	}
	log := func(file string, requests, iterations int, lb ir.Bytes) want {
		return want{file + ".txt.gz", "stalloc-log", requests, lb, 1, 0, -1, iterations, 0, 0}
	}
	csv := func(file string, requests int, lb ir.Bytes) want {
		return want{"intervals/" + file + ".csv", "interval-csv", requests, lb, 1, 0, -1, 0, 0, 0}
	}
	for _, w := range []want{
		snap("gpt_small_ctx200_3steps", 3907, 1229761024, 1326*MiB),
		snap("gpt_small_ctx200_amp_3steps", 4404, 977174528, 1150*MiB),
		late(snap("gpt_medium_ctx1024_late_recording", 7591, 24209134592, 25178406912), 438, 226),
		late(snap("gpt_medium_ctx128_late_recording", 6526, 7015301632, 7235174400), 438, 226),
		late(snap("gpt_large_ctx128_ring_wrapped", 3331, 16089928192, 20673724416), 480, 837),
		late(snap("gpt_one_step_two_gib", 2162, 3853700608, 4238344192), 222, 225),
		late(snap("gpt_ctx_one_step_13gib", 1721, 13927832064, 14180941824), 2, 227),
		snap("tiny_36_allocs", 36, 3249144832, 3781165056),

		{"kineto/five_marked_steps.json.gz", "chrome-trace", 13385, 2532893696, 1, 0, 12782141440, 5, 0, 0},
		{"oplog/alexnet_train.log", "op-log", 193, 1443673088, 1, 0, -1, 0, 0, 0},

		phantom("phantom/gpt2m_frames", 5801, 1, 20500007936, 20500007936, 22527606784),
		phantom("phantom/llama24_ckpt", 21147, 1, 52309304832, 52309304832, 59315847168),
		phantom("phantom/llama24_ckpt_expandable", 21147, 1, 52309304832, 52309304832, 53064237056),
		phantom("phantom/llama7b_fsdp8_nccl", 21461, 3, 37258510336, 41202610176, 44811943936),
		phantom("phantom/mixtral4", 4587, 1, 16577417216, 16577417216, 18329108480),
		phantom("phantom/moe_values", 8974, 1, 5207772672, 5207772672, 5549064192),
		phantom("phantom/resnet50", 5869, 1, 5876762624, 5876762624, 6725566464),
		phantom("frameworks/ds-z2-llama7b-ckpt", 41103, 2, 36545136640, 38245976064, 56465817600),
		phantom("frameworks/ds-z3-gpt2xl", 42333, 3, 48535983104, 49770843648, 53164900352),
		phantom("frameworks/gpt2-N-rank0", 41795, 1, 45808636416, 45808636416, 47211085824),
		phantom("frameworks/gpt2-R-rank0", 59043, 1, 5743825408, 5743825408, 6530531328),
		phantom("frameworks/gpt2-V-rank4", 43632, 1, 53240175104, 53240175104, 59454259200),
		phantom("frameworks/gpt2-VR-rank0", 59938, 1, 7089675264, 7089675264, 8153726976),
		phantom("frameworks/gpt2-ZR-rank0", 29812, 1, 10384665088, 10384665088, 12333350912),
		phantom("frameworks/gpt2-ZR-rs300-rank0", 29804, 1, 16827116032, 16827116032, 18037604352),
		phantom("frameworks/hf-gpt2m-b16", 26227, 1, 48370218496, 48370218496, 51606716416),
		phantom("frameworks/hf-llama7b-fsdp2-ckpt-es", 50105, 3, 30323020288, 34585125376, 36035362816),
		phantom("frameworks/hf-llama7b-fsdp2-ckpt", 50104, 3, 30323020288, 34585125376, 41810919424),
		phantom("frameworks/hf-llama7b-lora-ckpt-ragged", 165167, 1, 24588840960, 24588840960, 46873444352),
		phantom("frameworks/llama2-N-rank0", 108507, 1, 40673363968, 40673363968, 42031120384),
		phantom("frameworks/llama2-R-rank0", 154531, 1, 18740528128, 18740528128, 19887292416),
		phantom("frameworks/llama2-V-rank0", 111212, 1, 43465071616, 43465071616, 44868567040),
		phantom("frameworks/qwen-N-rank0", 102176, 1, 69381776384, 69381776384, 71334625280),
		phantom("frameworks/qwen-R-rank0", 141725, 1, 39489636864, 39489636864, 45766148096),
		phantom("frameworks/titan-llama3-8b-fsdp8-es", 18602, 3, 38804626432, 44176355840, 46470791168),
		phantom("frameworks/titan-llama3-8b-fsdp8", 18602, 3, 38804626432, 44176355840, 47982837760),

		log("megatron/gpt2-N-tp4-pp2-s0", 26039, 3, 33920905728),
		log("megatron/gpt2-R-tp4-pp2-s0", 35543, 3, 4548449792),
		log("megatron/gpt2-R-tp4-pp2-s1", 36558, 3, 25131354112),
		log("megatron/gpt2-V-tp4-pp2-s0", 26111, 3, 42123396096),
		log("megatron/gpt2-V-tp4-pp2-s1", 27126, 3, 48729042944),
		log("megatron/gpt2-VR-tp4-pp2-s0", 35615, 3, 4953201664),
		log("megatron/gpt2-ZR-tp2-pp2-s0", 35762, 3, 8218252800),
		log("megatron/llama70b-R-tp8-pp8-s3", 68740, 3, 22027672576),
		log("megatron/llama70b-VR-tp8-pp4-s0", 137663, 3, 42375882752),
		log("megatron/llama7b-N-tp4-pp2-s0", 77831, 3, 39978025472),
		log("megatron/llama7b-R-tp4-pp2-s0", 107015, 3, 18363467264),
		log("megatron/llama7b-R-tp4-pp2-s1", 109038, 3, 17858397696),
		log("megatron/llama7b-V-tp4-pp2-s0", 77975, 3, 46156634112),
		log("megatron/llama7b-VR-tp4-pp2-s0", 107159, 3, 18090970112),
		log("megatron/llama7b-ZR-tp2-pp2-s1", 109332, 3, 25517991424),
		log("megatron/qwenmoe-N-tp4-pp2-s0", 91715, 3, 64712250880),
		log("megatron/qwenmoe-R-tp4-pp2-s0", 123395, 3, 37781878272),
		log("megatron/qwenmoe-V-tp4-pp2-s0", 91787, 3, 72817862144),
		log("megatron/qwenmoe-ZR-tp2-pp2-s0", 124730, 3, 32380635136),
		log("torchcpu/bert_short_last_batch", 16839, 12, 126592000),
		log("torchcpu/gpt2_dense", 10595, 6, 463620608),
		log("torchcpu/gpt2_micro_batches_change", 23321, 9, 144138240),
		log("torchcpu/layerwise_optimizer", 9053, 6, 176000512),
		log("torchcpu/llama_accum", 18916, 5, 171804160),
		log("torchcpu/llama_checkpoint", 14516, 5, 149335552),
		log("torchcpu/llama_eval_in_loop", 10673, 9, 134658560),
		log("torchcpu/llama_varlen", 19487, 12, 155926528),
		log("torchcpu/lora_gpt2", 5311, 6, 273709568),
		log("torchcpu/moe_mixtral_grouped", 6623, 8, 166338560),
		log("torchcpu/moe_qwen2", 44249, 8, 230137344),
		log("torchcpu/ppo_generate_then_train", 73984, 5, 99200512),
		log("torchcpu/resnet_bn", 3339, 6, 87188992),
		log("torchcpu/resume_from_checkpoint", 8246, 6, 166178816),

		// Live peaks of interval files as a sweep over half-open intervals gives them. The
		// minimalloc ones must not exceed the capacity of 1048576 the instances are for.
		csv("pytorch/alexnet_train", 193, 1443673088),
		csv("pytorch/convnet_one_step", 1066, 19567570432),
		csv("pytorch/dtr_inceptionv4", 2969, 11239453184),
		csv("pytorch/dtr_lstm", 5248, 5595132928),
		csv("pytorch/dtr_resnet32", 680, 10061278208),
		csv("pytorch/dtr_transformer", 1814, 7429555200),
		csv("pytorch/dtr_unet", 429, 8415794176),
		csv("pytorch/five_marked_steps", 13385, 2532893696),
		csv("pytorch/gpt_2p7b_full_step", 7095, 54937606656),
		csv("pytorch/gpt_small_ctx200_3steps", 3907, 1229761024),
		csv("pytorch/gpt_small_ctx200_amp_3steps", 4404, 977174528),
		csv("pytorch/gpt_three_equal_steps", 4331, 10620956160),
		csv("pytorch/octree_infer_small", 369, 5692460032),
		csv("pytorch/ten_streams", 3253, 20802387456),
		csv("idealloc/G_1", 816, 3031009280),
		csv("idealloc/S_1", 28526, 1499817984),
		csv("idealloc/Y_1", 62185, 497263681024),
		csv("idealloc/pangu_2.6B", 18692, 5530104832),
		csv("idealloc/resnet50", 1042, 1515477504),
		csv("minimalloc/A.1048576", 154, 1048576),
		csv("minimalloc/B.1048576", 170, 1048576),
		csv("minimalloc/C.1048576", 203, 1039360),
		csv("minimalloc/D.1048576", 213, 986112),
		csv("minimalloc/E.1048576", 215, 1048576),
		csv("minimalloc/F.1048576", 296, 1048576),
		csv("minimalloc/G.1048576", 308, 1048576),
		csv("minimalloc/H.1048576", 316, 1048576),
		csv("minimalloc/I.1048576", 374, 1048576),
		csv("minimalloc/J.1048576", 409, 989184),
		csv("minimalloc/K.1048576", 454, 1048576),
	} {
		t.Run(w.file, func(t *testing.T) {
			tr := mustRead(t, dataFile(t, w.file))
			lb, _ := tr.LivePeak()
			var apart ir.Bytes
			for _, p := range tr.StreamPeaks() {
				apart += p
			}
			got := want{w.file, tr.Format, seen(tr), lb, len(tr.Streams), apart, tr.Reserved, 0, 0, 0}
			if w.apart == 0 {
				w.apart = w.lb
			}
			for _, m := range tr.Marks {
				if m.Kind == ir.MarkIteration && m.Value >= 0 {
					got.iterations++
				}
			}
			for i := range tr.Requests {
				switch r := &tr.Requests[i]; {
				case r.Flags&ir.Ghost != 0:
					got.resident++
				case r.Alloc == ir.Before:
					got.before++
				}
			}
			if got != w {
				t.Errorf("got  %+v\nwant %+v", got, w)
			}
			if late := w.before+w.resident > 0; tr.Late != late {
				t.Errorf("Late = %v, want %v", tr.Late, late)
			}
			if wrapped := strings.Contains(w.file, "ring_wrapped"); tr.Wrapped != wrapped {
				t.Errorf("Wrapped = %v, want %v", tr.Wrapped, wrapped)
			}
			if onePass := w.format == "interval-csv" || w.format == "op-log"; tr.OnePass != onePass {
				t.Errorf("OnePass = %v, want %v", tr.OnePass, onePass)
			}
			wantAllocator := ""
			if w.format == "torch-snapshot" {
				wantAllocator = "native"
				if strings.Contains(w.file, "expandable") || strings.Contains(w.file, "-es.") {
					wantAllocator = "expandable"
				}
			}
			if tr.Allocator != wantAllocator {
				t.Errorf("Allocator = %q, want %q", tr.Allocator, wantAllocator)
			}
			for _, n := range tr.Notes {
				if n.Level == ir.Bad {
					t.Errorf("note %s: %s", n.Code, n.Text)
				}
			}
		})
	}
}

// TestDataRefused: the files that cannot be used say why, and what to do.
func TestDataRefused(t *testing.T) {
	for file, want := range map[string][]string{
		"snapshots/no_events_private_pools.pickle": {"torch-snapshot", "no alloc events", "enable _record_memory_history before the step and dump before disabling it"},
		"kineto/no_addresses_2021.json.gz":         {"chrome-trace", "no addresses: frees cannot be paired"},
		"kineto/no_memory_events.json.gz":          {"chrome-trace", "no [memory] events", "profile_memory=True"},
		"frameworks/marks.json":                    {"chrome-trace", "JSON without traceEvents"},
		"frameworks/measured.csv":                  {"interval-csv", "line 1", `no column "lower"`},
		"intervals":                                {"is a directory"},
		"nowhere":                                  {"no such file"},
	} {
		t.Run(file, func(t *testing.T) {
			dataFile(t, "README.md")
			path := filepath.Join(sharedData, file)
			_, err := ReadFile(path, DefaultOptions())
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got %v, want an *Error", err)
			}
			if e.Path != path {
				t.Errorf("Path = %q", e.Path)
			}
			for _, part := range want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q lacks %q", err, part)
				}
			}
		})
	}
}

// TestDataSameRun: two formats of one run agree, request by request.
func TestDataSameRun(t *testing.T) {
	for _, pair := range [][2]string{
		{"oplog/alexnet_train.log", "intervals/pytorch/alexnet_train.csv"},
		{"kineto/five_marked_steps.json.gz", "intervals/pytorch/five_marked_steps.csv"},
		{"snapshots/gpt_small_ctx200_3steps.pickle", "intervals/pytorch/gpt_small_ctx200_3steps.csv"},
	} {
		a, b := mustRead(t, dataFile(t, pair[0])), mustRead(t, dataFile(t, pair[1]))
		if len(a.Requests) != len(b.Requests) {
			t.Fatalf("%v: %d and %d requests", pair, len(a.Requests), len(b.Requests))
		}
		for i := range a.Requests {
			ra, rb := &a.Requests[i], &b.Requests[i]
			end := rb.Free // the CSV ends at its last event what lives on
			if ra.Free == ir.Never {
				end = ir.Never
			}
			if ra.Rounded() != rb.Rounded() || ra.Alloc != rb.Alloc || ra.Free != end {
				t.Fatalf("%v: request %d: %+v and %+v", pair, i, *ra, *rb)
			}
		}
	}
}

// TestDataMarks: the annotated iterations of frameworks' runs hold exactly the requests
// that the runs' own record of event numbers says.
func TestDataMarks(t *testing.T) {
	text, err := os.ReadFile(dataFile(t, "frameworks/marks.json"))
	if err != nil {
		t.Fatal(err)
	}
	var truth map[string][]struct{ Requests int }
	if err := json.Unmarshal(text, &truth); err != nil {
		t.Fatal(err)
	}
	for name, iterations := range truth {
		tr := mustRead(t, dataFile(t, "frameworks/"+name+".pickle.gz"))
		begin, end := map[string]ir.Tick{}, map[string]ir.Tick{}
		last := ""
		for _, m := range tr.Marks {
			text := tr.Name(m.Name)
			if strings.HasPrefix(text, "between ") && last != "" {
				end[last] = min(end[last], m.Tick)
			}
			if !strings.HasPrefix(text, "iter ") {
				continue
			}
			if _, twice := begin[text]; m.Kind == ir.MarkEnter && !twice {
				begin[text], end[text] = m.Tick, ir.Tick(tr.Events)
				if last != "" { // a label ends where the next one begins
					end[last] = min(end[last], m.Tick)
				}
				last = text
			}
			if m.Kind == ir.MarkLeave {
				end[text] = m.Tick
			}
		}
		if len(begin) != len(iterations) {
			t.Errorf("%s: %d iterations, want %d", name, len(begin), len(iterations))
		}
		for k, want := range iterations {
			text, n := fmt.Sprintf("iter %d", k), 0
			for _, r := range tr.Requests {
				if r.Alloc >= begin[text] && r.Alloc < end[text] {
					n++
				}
			}
			if n != want.Requests {
				t.Errorf("%s, %s: %d requests, want %d", name, text, n, want.Requests)
			}
		}
	}
}

// TestShipped: the profiles that ship with the tool give what testdata/README.md says.
func TestShipped(t *testing.T) {
	for _, w := range []struct {
		file, format string
		requests     int
		lb, reserved ir.Bytes
	}{
		{"gpt2m_frames.pickle.gz", "torch-snapshot", 5801, 20500007936, 22527606784},
		{"mixtral4.pickle.gz", "torch-snapshot", 4587, 16577417216, 18329108480},
		{"gpt2_dense.txt.gz", "stalloc-log", 10595, 463620608, -1},
		{"minimalloc-A.csv", "interval-csv", 154, 1048576, -1},
		{"toy_gpt.stwp", "stweaver-record", 2338, 1556087296, 1635778560},
	} {
		tr := mustRead(t, filepath.Join("../testdata/profiles", w.file))
		lb, _ := tr.LivePeak()
		if tr.Format != w.format || len(tr.Requests) != w.requests || lb != w.lb || tr.Reserved != w.reserved {
			t.Errorf("%s: %s, %d requests, live peak %d, reserved %d; want %+v", w.file, tr.Format, len(tr.Requests), lb, tr.Reserved, w)
		}
	}
}
