#pragma once
/// @file
/// Tiles of rows that begin where documents do.

#include "kernels/ladders/attention/attention_varlen/attention_varlen.hpp"
#include "kernels/simt/simt.cuh"

namespace ultra::kernels::attention_varlen {
namespace {

// A tile of a document's rows.
struct DocumentTile {
  int begin;   // of the document, in the pack
  int length;  // of the document; 0 where there is no such tile
  int tile;    // of the document's tiles, the first one is 0
};

// Tile number `wanted` of all documents' tiles. Every thread walks the same few numbers, which are
// one word for the whole warp each.
// [region find]
__device__ __forceinline__ DocumentTile find_tile(const int* __restrict__ begins, int documents,
                                                  int wanted) {
  int begin = simt::ldg(&begins[0]);
  for (int document = 0; document < documents; ++document) {
    const int end = simt::ldg(&begins[document + 1]);
    const int tiles = (end - begin + kTile - 1) / kTile;
    if (wanted < tiles) {
      return {begin, end - begin, wanted};
    }
    wanted -= tiles;
    begin = end;
  }
  return {begin, 0, 0};
}
// [/region]

}  // namespace
}  // namespace ultra::kernels::attention_varlen
