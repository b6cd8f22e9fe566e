# breaklab in a container, with all that runs a test suite: see "In a container" in README.md.
#
#   docker build -t breaklab . && docker run --rm -it -v "$PWD:/work" breaklab break mul-swapped-operands
FROM docker.io/library/python:3.11-slim

COPY . /opt/breaklab
RUN python -m pip install --no-cache-dir -c /opt/breaklab/constraints.txt '/opt/breaklab[autograd,html,junit]' pytest

WORKDIR /work
ENTRYPOINT ["breaklab"]
CMD ["start"]
