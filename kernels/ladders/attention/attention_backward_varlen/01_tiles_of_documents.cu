// Rung 1: tiles of keys and of queries begin where documents do.
//
// Idea:   the two kernels of attention_backward_bf16, whose blocks look for their document first, as
//         attention_varlen's third rung does.
// Gain:   no product of two documents, no padding; each gradient's sum stays in one block, so its
//         bits are the same in every run.
// Limit:  that of attention_backward_bf16; and a document's last tiles may be nearly empty.

#include "kernels/ladders/attention/attention_backward_bf16/block_gradients.cuh"
#include "kernels/ladders/attention/attention_backward_varlen/attention_backward_varlen.hpp"
#include "kernels/ladders/attention/attention_varlen/document_tiles.cuh"

namespace ultra::kernels::attention_backward_varlen {
namespace {

using namespace simt;
using namespace attention_backward_bf16;
using attention_varlen::DocumentTile;
using attention_varlen::find_tile;
using attention_varlen::most_tiles;
using Varlen = attention_backward_varlen::Problem;

static_assert(attention_varlen::kTile == kRows);

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 1) varlen_keys_kernel(const Varlen problem) {
  const DocumentTile own = find_tile(problem.begins, problem.documents, blockIdx.x);
  if (own.length == 0) {
    return;
  }
  attention_backward_bf16::Problem document = problem.pack;
  document.shape.seq_len = own.length;
  document.shape.tokens_first = false;  // known to the compiler: registers are full
  differentiate_keys<kHeadDim>(document, {problem.pack.shape.seq_len, own.begin}, own.tile);
}

template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, 1) varlen_queries_kernel(const Varlen problem) {
  const DocumentTile own = find_tile(problem.begins, problem.documents, blockIdx.x);
  if (own.length == 0) {
    return;
  }
  attention_backward_bf16::Problem document = problem.pack;
  document.shape.seq_len = own.length;
  document.shape.tokens_first = false;  // known to the compiler: registers are full
  differentiate_queries<kHeadDim>(document, {problem.pack.shape.seq_len, own.begin}, own.tile);
}

template <int kHeadDim>
void launch_both(const Varlen& problem, const Queue& queue) {
  const attention::Shape& shape = problem.pack.shape;
  Config config = {.name = "keys",
                   .grid = {.x = most_tiles(shape.seq_len, problem.documents),
                            .y = static_cast<unsigned>(shape.batch * shape.kv_heads)},
                   .block = {.x = kThreads},
                   .shared_bytes = Tiles<kHeadDim, simt::bf16>::kBytes,
                   .queue = queue};
  launch(varlen_keys_kernel<kHeadDim>, config, problem);
  config.name = "queries";
  config.grid.y = static_cast<unsigned>(shape.heads());
  launch(varlen_queries_kernel<kHeadDim>, config, problem);
}

}  // namespace

template <>
void tiles_of_documents<kExecutor>(const Varlen& problem, const Queue& queue) {
  launch_delta(problem.pack, queue);
  if (problem.pack.shape.head_dim <= 64) {
    launch_both<64>(problem, queue);
  } else {
    launch_both<128>(problem, queue);
  }
}

}  // namespace ultra::kernels::attention_backward_varlen
