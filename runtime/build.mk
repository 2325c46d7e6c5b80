# build.mk: the C side, included by the top Makefile; paths are relative to it.
#
#   so       build/libstweaver.so: the runtime, and the plug-in for PyTorch
#   ctest    every plain-C test: plain, with ASan + UBSan, with TSan, and some once more
#            with a lock that changes owner all the time: those with threads, and those that are long in step; needs no Go
#   exports  the .so exports what runtime/exports.txt lists, and asks for an old libc, libdl, libpthread and libstdc++ only
#   cuda-phantom  the CUDA backend on a phantom device (PHANTOM: the program that runs another one on it), which checks
#            how virtual memory is used; and its declarations against CUDA's own header (CUDA_INCLUDE: its folder)
#   cbench   ns of a malloc + free pair on every path, beside glibc's and, where it is installed, mimalloc's
#   sample-recording  the shipped recording of a made-up training loop, testdata/profiles/toy_gpt.stwp
#   cfuzz    mutated plans (testdata/plans, and made-up ones) against the loader; FUZZ_ROUNDS, FUZZ_SEED

CC ?= cc
CXX ?= c++
RT := runtime
RT_OUT := build/runtime
RT_CORE := $(addprefix $(RT)/,plan_load.c plan_check.c stw.c stw_step.c stw_serve.c stw_create.c stw_match.c stw_alike.c stw_points.c stw_repeat.c stw_proportion.c stw_guest.c stw_heap.c stw_bins.c stw_lowest.c stw_pages.c stw_memory.c stw_table.c stw_bits.c stw_check.c stw_report.c stw_lock.c backend_host.c backend_cuda.c cuda_open.c cuda_driver.c cuda_events.c crc32c.c stw_record.c stw_record_file.c)
RT_HEADERS := $(addprefix $(RT)/,stw.h stw_cuda.h stw_plan.h plan_load.h stw_internal.h stw_bits.h stw_heap.h stw_bins.h stw_lowest.h stw_lock.h stw_match.h stw_step.h stw_table.h cuda_driver.h stw_record.h stw_record_internal.h) $(addprefix $(RT)/ctest/,check.h support.h scene.h)
RT_TORCH := $(addprefix $(RT)/torch/,devices.c plug.c pools.c conf.c canary.c oom.cc)
RT_HEADERS += $(addprefix $(RT)/torch/,stw_torch.h process.h conf.h ../old_dl.h)
RT_TESTS := test_load test_plan test_step test_guest test_memory test_commit test_heap test_lock test_stress fuzz_load
RT_CORE += $(addprefix $(RT)/,stw_order.c stw_wait.c stw_marks.c stw_stitch.c stw_pieces.c)
RT_HEADERS += $(RT)/stw_stitch.h $(RT)/stw_order.h $(RT)/ctest/late.h
RT_TESTS += test_order
RT_CORE += $(addprefix $(RT)/,stw_idle.c stw_lent.c)
RT_HEADERS += $(RT)/stw_idle.h $(RT)/ctest/bench.h
RT_TESTS += test_idle
RT_TESTS += test_torch
RT_HEADERS += $(RT)/ctest/record_file.h
RT_TESTS += test_record test_record_end
# The CUDA backend's tests, and the double of libcuda that they find by dlopen.
RT_CUDA_TESTS := test_double test_cuda test_cuda_threads test_faults test_stitch test_records test_report
RT_TESTS += $(RT_CUDA_TESTS)
RT_DOUBLE := $(addprefix $(RT)/ctest/,libcuda_double.c libcuda_double_memory.c libcuda_double_work.c)
RT_HEADERS += $(addprefix $(RT)/ctest/,records.h cuda_scene.h libcuda_double.h libcuda_double_internal.h)
RT_DL := -Wl,--no-as-needed -l:libdl.so.2 -Wl,--as-needed
RT_STRICT := -std=c11 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Werror
RT_STRICT_CXX := -std=c++17 -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
RT_FLAGS_so := -O2 -DSTW_OLD_GLIBC -fPIC -fexceptions
RT_FLAGS_plain := -O2
RT_FLAGS_eager := -O2 -DSTW_STREAK=2
RT_FLAGS_asan := -O1 -g -DSTW_STREAK=8 -fsanitize=address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer
RT_FLAGS_tsan := -O1 -g -DSTW_STREAK=8 -fsanitize=thread -fno-sanitize-recover=all
FUZZ_ROUNDS ?= 100000
FUZZ_SEED ?= 1

.PHONY: so ctest exports cbench cfuzz sample-recording

so: build/libstweaver.so ## build/libstweaver.so: the runtime, and the plug-in for PyTorch

# build/runtime/<mode>/<test>: the core is compiled with the mode's flags, once for each mode.
define rt_mode
$(RT_OUT)/$(1)/%.o: $(RT)/%.c $(RT_HEADERS)
	@mkdir -p $$(dir $$@)
	$$(CC) $(RT_STRICT) $(RT_FLAGS_$(1)) -fvisibility=hidden -c -o $$@ $$<
$(RT_OUT)/$(1)/%.o: $(RT)/%.cc $(RT_HEADERS)
	@mkdir -p $$(dir $$@)
	$$(CXX) $(RT_STRICT_CXX) $(RT_FLAGS_$(1)) -fvisibility=hidden -c -o $$@ $$<
$(RT_OUT)/$(1)/%: $(RT_OUT)/$(1)/ctest/%.o $(RT_OUT)/$(1)/ctest/support.o $(RT_CORE:$(RT)/%.c=$(RT_OUT)/$(1)/%.o)
	$$(CC) $(RT_FLAGS_$(1)) -o $$@ $$(filter %.o,$$^) $$(RT_WRAP) -pthread -ldl -Wl,--disable-new-dtags,-rpath,'$$$$ORIGIN'
$(RT_OUT)/$(1)/test_order $(RT_OUT)/$(1)/test_records: $(RT_OUT)/$(1)/ctest/late.o
$(RT_OUT)/$(1)/test_records: $(RT_OUT)/$(1)/ctest/records.o
$(RT_OUT)/$(1)/test_records: RT_WRAP := -Wl,--wrap=mmap,--wrap=mremap,--wrap=munmap
$(RT_OUT)/$(1)/bench: $(addprefix $(RT_OUT)/$(1)/ctest/bench_,plan.o idle.o heap.o threads.o)
$(RT_OUT)/$(1)/test_torch: $(addprefix $(RT_OUT)/$(1)/torch/,devices.o plug.o pools.o conf.o canary.o)
$(RT_OUT)/$(1)/libcuda.so.1: $(RT_DOUBLE) $(RT_HEADERS)
	@mkdir -p $$(dir $$@)
	$$(CC) $(RT_STRICT) $(RT_FLAGS_$(1)) -fPIC -shared -fvisibility=hidden -Wl,-soname,libcuda.so.1 -o $$@ $(RT_DOUBLE) -pthread
$(addprefix $(RT_OUT)/$(1)/,$(RT_CUDA_TESTS) test_torch): $(RT_OUT)/$(1)/libcuda.so.1
endef
$(foreach mode,so plain eager asan tsan,$(eval $(call rt_mode,$(mode))))

# What out of memory is thrown as: without a libc10, with a recent one, with an older one.
RT_OOM := $(addprefix $(RT_OUT)/c10/,whole/libc10.so old/libc10.so)
$(RT_OUT)/c10/whole/libc10.so: RT_FLAGS_c10 := -DWHOLE
$(RT_OOM): $(RT)/ctest/fake_c10.cc
	@mkdir -p $(@D)
	$(CXX) $(RT_STRICT_CXX) $(RT_FLAGS_c10) -O1 -fPIC -shared -fvisibility=hidden -Wl,-soname,libc10.so -o $@ $<
$(RT_OUT)/asan/test_oom: $(RT_OUT)/asan/ctest/test_oom.o $(RT_OUT)/asan/torch/oom.o
	$(CXX) $(RT_FLAGS_asan) -o $@ $^ -ldl

# Exceptions of PyTorch's own type pass through the C of the plug-in: hence -fexceptions, and libstdc++.
build/libstweaver.so: $(patsubst $(RT)/%,$(RT_OUT)/so/%.o,$(basename $(RT_CORE) $(RT_TORCH)))
	@mkdir -p build
	$(CXX) -shared -Wl,-z,defs -Wl,-z,now -Wl,-soname,libstweaver.so -o $@ $^ -pthread -Wl,--as-needed $(RT_DL)

.PRECIOUS: $(foreach mode,plain eager asan tsan,$(RT_OUT)/$(mode)/%.o $(RT_OUT)/$(mode)/ctest/%.o)

RT_BINARIES := $(addprefix $(RT_OUT)/eager/,test_lock test_stress test_plan test_step test_guest test_memory test_order) \
    $(foreach mode,plain asan tsan,$(addprefix $(RT_OUT)/$(mode)/,$(RT_TESTS)))

ctest: $(RT_BINARIES) $(RT_OUT)/asan/test_oom $(RT_OOM) ## every plain-C test: plain, under ASan + UBSan, under TSan
	@set -e; for t in $(RT_BINARIES); do echo "== $$t"; $$t; done
	@set -e; for c10 in "" $(RT_OOM); do echo "== test_oom $$c10"; $(RT_OUT)/asan/test_oom $$c10; done

exports: build/libstweaver.so ## the .so exports what runtime/exports.txt lists, and needs an old libc
	@nm -D --defined-only $< | awk '{print $$3}' | LC_ALL=C sort | diff $(RT)/exports.txt - \
	    || { echo "exports: $< does not export what $(RT)/exports.txt lists"; exit 1; }
	@objdump -T $< | grep -o 'GLIBC_[0-9.]*' | LC_ALL=C sort -uV | awk -F'[_.]' \
	    '$$2 > 2 || $$3 > 28 { print "exports: needs " $$0 ", newer than GLIBC_2.28"; bad = 1 } END { exit bad }'
	@! objdump -p $< | awk '$$1 == "NEEDED" && $$2 !~ /^lib(c|dl|pthread|stdc\+\+|gcc_s)\.so/ { print "exports: needs " $$2; found = 1 } END { exit !found }'
	@echo "exports: the $$(wc -l < $(RT)/exports.txt) listed symbols; $$(stat -c %s $<) bytes; libc, libdl, libpthread, libstdc++ only; GLIBC_2.28 or older"

cbench: $(RT_OUT)/plain/bench $(RT_OUT)/plain/bench_record ## ns of a malloc + free pair on every path, beside other allocators
	$(RT_OUT)/plain/bench
	$(RT_OUT)/plain/bench_record

sample-recording: $(RT_OUT)/plain/record_sample ## rewrite the shipped recording testdata/profiles/toy_gpt.stwp
	$< testdata/profiles/toy_gpt.stwp

cfuzz: $(RT_OUT)/asan/fuzz_load ## mutated plans against the loader; FUZZ_ROUNDS, FUZZ_SEED
	$< $(FUZZ_ROUNDS) $(FUZZ_SEED)

PHANTOM ?= ../shared/phantom/run.sh
CUDA_INCLUDE ?= $(HOME)/.cache/stweaver/torch/lib/python3.11/site-packages/nvidia/cu13/include
PHANTOM_BUILD ?= $(HOME)/.cache/phantom
$(RT_OUT)/libcuda_phantom.so: $(RT)/ctest/phantom_events.c
	$(CC) $(RT_STRICT) -O2 -fPIC -shared -fvisibility=hidden -Wl,-soname,libcuda_phantom.so -o $@ $< -L$(PHANTOM_BUILD) -l:libphantom.so
.PHONY: cuda-phantom
cuda-phantom: $(RT_OUT)/plain/phantom_cuda $(RT_OUT)/libcuda_phantom.so ## the CUDA backend on a phantom device
	$(CC) -std=c11 -fsyntax-only -I$(CUDA_INCLUDE) $(RT)/ctest/cuda_layout.c
	PHANTOM_TRACE=$(RT_OUT)/phantom.trace $(PHANTOM) $< --touch $(RT_OUT)/libcuda_phantom.so
	@! grep BAD $(RT_OUT)/phantom.trace
	@echo "cuda-phantom: ok, $$(grep -c ^map $(RT_OUT)/phantom.trace) mappings"
