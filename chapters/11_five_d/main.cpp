/// 11_five_d: trains with every technique of the book at once; or says what can go together.

#include "chapters/11_five_d/five_d.hpp"

int main(int argc, char** argv) {
  return ultra::train::run_techniques(
      "11_five_d",
      "Trains a small Llama-style model with every technique of the book at once: data, ZeRO, "
      "tensor, sequence, context, pipeline and expert parallel.",
      ultra::five_d::techniques, argc, argv);
}
