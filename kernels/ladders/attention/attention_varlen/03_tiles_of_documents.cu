// Rung 3: tiles begin where documents do.
//
// Idea:   the grid has as many tiles of queries as there can be, and a block walks the documents'
//         begins until it has found its own, as experts' products do. From then on it is
//         attention_bf16's third rung on a sequence of the document's length, which begins where
//         the document does: no mask but that rung's own.
// Gain:   no product of two documents. Nothing is padded, and nothing goes to the host.
// Limit:  a document's last tile of queries may be nearly empty: with documents of far fewer than
//         128 tokens, rung 2 has fewer tiles.

#include "kernels/ladders/attention/attention_bf16/pipelined_attention.cuh"
#include "kernels/ladders/attention/attention_varlen/document_tiles.cuh"

namespace ultra::kernels::attention_varlen {
namespace {

using namespace simt;
using namespace attention_bf16;
using Varlen = attention_varlen::Problem;

static_assert(kTile == kQueries);

// The tile's document as a problem of its own.
__device__ __forceinline__ attention_bf16::Problem document_of(const Varlen& problem,
                                                               const DocumentTile& own) {
  attention_bf16::Problem document = problem.pack;
  document.shape.seq_len = own.length;
  return document;
}

__device__ __forceinline__ BlockSite site_of_document(const Varlen& problem,
                                                      const DocumentTile& own) {
  return site_of(document_of(problem, own).shape, {problem.pack.shape.seq_len, own.begin},
                 blockIdx.y, own.tile, kTile);
}

// [region tiles]
template <int kHeadDim>
__global__ void __launch_bounds__(kThreads, kBlocks) tiles_kernel(const Varlen problem) {
  __shared__ DocumentTile found;
  if (threadIdx.x == 0) {
    sts(&found, find_tile(problem.begins, problem.documents, blockIdx.x));
  }
  __syncthreads();  // else others read what is not found yet
  const DocumentTile own = lds(&found);
  if (own.length == 0) {
    return;
  }
  const attention_bf16::Problem document = document_of(problem, own);
  const BlockSite site = site_of_document(problem, own);
  Output<kHeadDim> output = {};
  OnlineSoftmax softmax;
  attend_in_background<kHeadDim, 2>(output, softmax, document, site, {0, site.most_keys},
                                    MaskOfShape<kHeadDim>{document.shape});
  const DocumentTile again = lds(&found);  // registers were full meanwhile
  store_rows<kHeadDim, true>(document_of(problem, again), site_of_document(problem, again), output,
                             softmax);
}
// [/region]

template <int kHeadDim>
void launch_tiles(const Varlen& problem, const Queue& queue) {
  Config config =
      launch_of<kHeadDim>(problem.pack, queue, "tiles of documents", kPipelinedRows<kHeadDim>);
  config.grid.x = most_tiles(problem.pack.shape.seq_len, problem.documents);
  launch(tiles_kernel<kHeadDim>, config, problem);
}

}  // namespace

template <>
void tiles_of_documents<kExecutor>(const Varlen& problem, const Queue& queue) {
  if (problem.pack.shape.head_dim <= 64) {
    launch_tiles<64>(problem, queue);
  } else {
    launch_tiles<128>(problem, queue);
  }
}

}  // namespace ultra::kernels::attention_varlen
