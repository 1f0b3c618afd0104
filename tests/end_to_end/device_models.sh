# Sourced by the tests of devices after common.sh: small models with dropout, $mnist (arguments) and lm.yaml,
# and functions that compare runs.
read -ra data <<< "$(mnist_data)"
made_up_pairs 3 240 words
made_up_pairs 4 30 dev
small_language_model words.en 280 > lm.yaml
echo "train: {batch_size: 8, log_every: 1}" >> lm.yaml
mnist=("$source_dir/configs/models/mnist_dropout.yaml" "${data[@]}" vars.hidden=48 train.batch_size=48 train.epochs=null train.log_every=1
  learning_rate=0.01)

# agree DIRECTORY DIRECTORY [TOLERANCE]: the losses of two runs must agree.
agree() {
  losses "$1" > a
  losses "$2" > b
  expect_close a b "${3:-1e-5}"
}
