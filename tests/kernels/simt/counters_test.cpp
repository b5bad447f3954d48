// The counters against closed forms: what a warp's accesses cost follows from its addresses.

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "tests/kernels/simt/kernels/kernels.hpp"
#include "tests/kernels/simt/support.hpp"

namespace ultra::simt::test {
namespace counters_test {

__global__ void strided_load_kernel(const float* in, float* out, int stride, int offset) {
  const int thread = static_cast<int>(threadIdx.x);
  const float value = ldg(&in[offset + thread * stride]);
  stg(&out[thread], value);
}

__global__ void vector_load_kernel(const float4* in, float4* out) {
  const float4 value = ldg(&in[threadIdx.x]);
  stg(&out[threadIdx.x], value);
}

__global__ void half_load_kernel(const half* in, half* out) {
  const half value = ldg(&in[threadIdx.x]);
  stg(&out[threadIdx.x], value);
}

Report strided_load(int stride, int offset, unsigned threads = 32) {
  const Buffer<float> in("in", std::vector<float>(32 * 32 + 32, 1.0F));
  Buffer<float> out("out", std::size_t{threads});
  return recorded(strided_load_kernel, one_block(threads), in.data(), out.data(), stride, offset);
}

struct StrideCase {
  int stride;
  std::uint64_t sectors;
};

TEST(Counters, SectorsFollowTheStride) {
  // 32 lanes x 4 bytes x stride cover min(32, 4 stride) sectors of 32 bytes; stride 0 is a broadcast.
  for (const auto& [stride, sectors] : {StrideCase{0, 1}, StrideCase{1, 4}, StrideCase{2, 8},
                                        StrideCase{4, 16}, StrideCase{8, 32}, StrideCase{32, 32}}) {
    const Site load = strided_load(stride, 0).total(AccessKind::kGlobalLoad);
    EXPECT_EQ(load.requests, 1U);
    EXPECT_EQ(load.lanes, 32U);
    EXPECT_EQ(load.bytes, 128U);
    EXPECT_EQ(load.sectors, sectors) << "stride " << stride;
  }
}

TEST(Counters, AMisalignedWarpTouchesOneSectorMore) {
  for (const int offset : {1, 4, 7}) {
    EXPECT_EQ(strided_load(1, offset).total(AccessKind::kGlobalLoad).sectors, 5U) << offset;
  }
  EXPECT_EQ(strided_load(1, 8).total(AccessKind::kGlobalLoad).sectors, 4U);
}

TEST(Counters, EachWarpIsARequest) {
  const Site load = strided_load(1, 0, 80).total(AccessKind::kGlobalLoad);
  EXPECT_EQ(load.requests, 3U);
  EXPECT_EQ(load.lanes, 80U);
  EXPECT_EQ(load.sectors, 10U);  // 4 + 4 + half a warp's 2
}

TEST(Counters, WideAndNarrowElements) {
  const Buffer<float4> in("in", std::vector<float4>(32, make_float4(1, 2, 3, 4)));
  Buffer<float4> out("out", std::size_t{32});
  const Report wide = recorded(vector_load_kernel, one_block(32), in.data(), out.data());
  EXPECT_EQ(wide.total(AccessKind::kGlobalLoad).sectors, 16U);
  EXPECT_EQ(wide.total(AccessKind::kGlobalStore).sectors, 16U);
  EXPECT_EQ(wide.total(AccessKind::kGlobalLoad).size, 0) << "a sum over sizes has none";
  EXPECT_EQ(wide.sites.at(0).size, 16);
  const Buffer<half> halves("halves", std::vector<half>(32, half(1.0F)));
  Buffer<half> half_out("out", std::size_t{32});
  const Report narrow = recorded(half_load_kernel, one_block(32), halves.data(), half_out.data());
  EXPECT_EQ(narrow.total(AccessKind::kGlobalLoad).sectors, 2U);
}

__global__ void shared_kernel(int stride) {
  __shared__ float words[32 * 33];
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < 32 * 33; i += 32) {
    sts(&words[i], 1.0F);
  }
  __syncthreads();
  static_cast<void>(lds(&words[thread * stride]));
}

TEST(Counters, BankConflictsFollowTheStride) {
  // Lanes i and j meet in a bank when stride (i - j) is a multiple of 32: gcd(stride, 32) ways.
  for (const int stride : {1, 2, 3, 4, 8, 16, 32, 33}) {
    const Report report = recorded(shared_kernel, one_block(32), stride);
    const Site load = report.total(AccessKind::kSharedLoad);
    EXPECT_EQ(load.requests, 1U);
    EXPECT_EQ(load.wavefronts, static_cast<std::uint64_t>(std::gcd(stride, 32))) << stride;
    EXPECT_EQ(load.ideal_wavefronts, 1U);
    EXPECT_EQ(report.total(AccessKind::kSharedStore).wavefronts_per_request(), 1.0);
  }
  const Report broadcast = recorded(shared_kernel, one_block(32), 0);
  EXPECT_EQ(broadcast.total(AccessKind::kSharedLoad).wavefronts, 1U);
}

__global__ void shared_vector_kernel(int stride) {
  __shared__ float4 vectors[32 * 8];
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < 32 * 8; i += 32) {
    sts(&vectors[i], make_float4(0, 0, 0, 0));
  }
  __syncthreads();
  static_cast<void>(lds(&vectors[thread * stride]));
}

TEST(Counters, VectorsTakeAQuarterWarpAPass) {
  const Site dense =
      recorded(shared_vector_kernel, one_block(32), 1).total(AccessKind::kSharedLoad);
  EXPECT_EQ(dense.wavefronts, 4U);
  EXPECT_EQ(dense.ideal_wavefronts, 4U);
  // Rows of 32 words: the 8 lanes of a quarter all want the same 4 banks.
  const Site rows = recorded(shared_vector_kernel, one_block(32), 8).total(AccessKind::kSharedLoad);
  EXPECT_EQ(rows.wavefronts, 32U);
  EXPECT_EQ(rows.ideal_wavefronts, 4U);
}

Report transposed(TransposePadding padding) {
  const Buffer<float> in("in", whole_numbers<float>(64 * 64));
  Buffer<float> out("out", in.size());
  Report report;
  transpose<Executor::kChecked>(padding, in.data(), out.data(), 64, 64, {.report = &report});
  return report;
}

TEST(Counters, AnUnpaddedTransposeHas32WayConflicts) {
  const Report plain = transposed(TransposePadding::kNone);
  EXPECT_EQ(plain.total(AccessKind::kSharedLoad).wavefronts_per_request(), 32.0);
  EXPECT_EQ(plain.total(AccessKind::kSharedStore).wavefronts_per_request(), 1.0);
  const Report padded = transposed(TransposePadding::kOneColumn);
  EXPECT_EQ(padded.total(AccessKind::kSharedLoad).wavefronts_per_request(), 1.0);
  for (const AccessKind kind : {AccessKind::kGlobalLoad, AccessKind::kGlobalStore}) {
    EXPECT_EQ(padded.total(kind).requests, 128U);
    EXPECT_EQ(padded.total(kind).sectors_per_request(), 4.0);
  }
}

Report multiplied(MatmulKernel kernel, int n) {
  const Buffer<float> a("a", whole_numbers<float>(n * n));
  Buffer<float> c("c", a.size());
  Report report;
  matmul<Executor::kChecked>(kernel, a.data(), a.data(), c.data(), n, {.report = &report});
  return report;
}

TEST(Counters, MatmulSectors) {
  // Per warp and k: the naive kernel reads 32 rows of a (32 sectors) and one element of b (1), the
  // coalesced one an element of a (1) and 32 neighbours of b (4). n^3 / 32 of these.
  const int n = 64;
  constexpr std::uint64_t kRounds = 64 * 64 * 64 / 32;
  EXPECT_EQ(multiplied(MatmulKernel::kNaive, n).total(AccessKind::kGlobalLoad).sectors,
            kRounds * 33);
  EXPECT_EQ(multiplied(MatmulKernel::kCoalesced, n).total(AccessKind::kGlobalLoad).sectors,
            kRounds * 5);
  // Each of the n^2 results' tiles loads 2 n / 32 elements per thread, all coalesced: 2 n^3 / 32
  // elements at 4 bytes.
  const Report tiled = multiplied(MatmulKernel::kTiled, n);
  EXPECT_EQ(tiled.total(AccessKind::kGlobalLoad).sectors, kRounds * 2 / 8);
  EXPECT_EQ(tiled.total(AccessKind::kSharedLoad).requests, kRounds * 2);
  EXPECT_EQ(tiled.total(AccessKind::kSharedLoad).wavefronts_per_request(), 1.0);
}

__global__ void divergent_kernel(int* out) {
  const int thread = static_cast<int>(threadIdx.x);
  if (branch(thread % 2 == 0)) {
    stg(&out[thread], 1);
  } else {
    stg(&out[thread], 2);
  }
}

__global__ void uniform_kernel(int* out) {
  const int thread = static_cast<int>(threadIdx.x);
  if (branch(thread / 32 % 2 == 0)) {
    stg(&out[thread], 1);
  } else {
    stg(&out[thread], 2);
  }
}

TEST(Counters, BranchesDivergeInsideWarpsOnly) {
  Buffer<int> out("out", std::size_t{128});
  const Report divergent = recorded(divergent_kernel, one_block(128), out.data());
  EXPECT_EQ(divergent.total(AccessKind::kBranch).requests, 4U);
  EXPECT_EQ(divergent.total(AccessKind::kBranch).divergent, 4U);
  EXPECT_EQ(divergent.total(AccessKind::kGlobalStore).requests, 8U);
  EXPECT_EQ(divergent.total(AccessKind::kGlobalStore).lanes_per_request(), 16.0);
  EXPECT_DOUBLE_EQ(divergent.active_lanes(), (4 * 32 + 8 * 16) / 12.0);
  const Report uniform = recorded(uniform_kernel, one_block(128), out.data());
  EXPECT_EQ(uniform.total(AccessKind::kBranch).divergent, 0U);
  EXPECT_EQ(uniform.active_lanes(), 32.0);
}

__global__ void atomic_kernel(int* bins, int count) {
  __shared__ int local;
  if (threadIdx.x == 0) {
    sts(&local, 0);
  }
  __syncthreads();
  atomicAdd(&local, 1);
  atomicAdd(&bins[static_cast<int>(threadIdx.x) % count], 1);
}

TEST(Counters, AtomicsGoWhereTheirAddressIs) {
  Buffer<int> bins("bins", std::vector<int>(32, 0));
  const Report report = recorded(atomic_kernel, one_block(32), bins.data(), 16);
  EXPECT_EQ(report.total(AccessKind::kSharedAtomic).requests, 1U);
  EXPECT_EQ(report.total(AccessKind::kSharedAtomic).wavefronts, 1U);
  EXPECT_EQ(report.total(AccessKind::kGlobalAtomic).requests, 1U);
  EXPECT_EQ(report.total(AccessKind::kGlobalAtomic).sectors, 2U);
  EXPECT_EQ(bins.download().at(15), 2);
  EXPECT_EQ(bins.download().at(16), 0);
}

TEST(Counters, SitesNameTheirLines) {
  const Report report = transposed(TransposePadding::kNone);
  ASSERT_EQ(report.sites.size(), 6U);  // two branches, two loads, two stores
  for (const Site& site : report.sites) {
    EXPECT_EQ(site.file, "tests/kernels/simt/kernels/transpose.cu");
  }
  const Site first = report.at_line(report.sites.front().line);
  EXPECT_EQ(first.kind, AccessKind::kBranch);
  EXPECT_EQ(first.requests, 128U);
  EXPECT_NE(to_table(report).find("transpose.cu:"), std::string::npos);
}

TEST(Counters, MetricsHaveTheNamesOfNsightCompute) {
  const Report report = transposed(TransposePadding::kNone);
  EXPECT_EQ(report.metric("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum"), 128.0);
  EXPECT_EQ(report.metric("l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum"), 512.0);
  EXPECT_EQ(report.metric("l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio"),
            4.0);
  EXPECT_EQ(report.metric("l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"), 128.0 * 32);
  EXPECT_EQ(report.metric("l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum"), 128.0 * 31);
  EXPECT_EQ(report.metric("smsp__thread_inst_executed_per_inst_executed.ratio"), 32.0);
  EXPECT_THROW(static_cast<void>(report.metric("no_such_metric")), std::out_of_range);
}

}  // namespace counters_test
}  // namespace ultra::simt::test
